/** Questions of MCP servers, answered by a person: on the approval page, or in another process. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { ApprovalClient } from "../../src/approval/client.ts";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { silentLogger } from "../../src/base/log.ts";
import { abortable } from "../../src/base/signals.ts";
import { type OwnServerOptions, ToolServer } from "../../src/calls/tool_server.ts";
import { auditedQuestions } from "../support/audited_questions.ts";
import { openPage, untilReady, untilWaiting } from "../support/approval_page.ts";
import { browserTest, type Page } from "../support/browser.ts";
import { filesBelow } from "../support/files.ts";
import { layoutFaults } from "../support/in_page.js";
import { rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";
import { stateOf } from "../support/workspace_state.ts";

const client = fileURLToPath(new URL("../fixtures/answering_client.ts", import.meta.url));

const FORM = {
  type: "object",
  properties: {
    name: { type: "string", title: "Your name", description: "As on the badge", minLength: 2 },
    mail: { type: "string", format: "email", default: "a@b.example" },
    seats: { type: "integer", minimum: 1, maximum: 9 },
    aisle: { type: "boolean", default: true },
    size: { type: "string", enum: ["s", "l"], enumNames: ["Small", "Large"], default: "l" },
    extras: {
      type: "array",
      items: { anyOf: [{ const: "meal", title: "A meal" }, { const: "bag", title: "A bag" }] },
      default: ["bag"],
    },
    note: { type: "string" },
  },
  required: ["name", "seats", "size"],
};
const RIGHT = { name: "Ada", seats: 2, size: "l" };

async function start(workspace?: string): Promise<ToolServer> {
  const own: OwnServerOptions = {
    servers: { raw: rawServer() },
    approval: "allow",
    workspace,
    graceMs: 60_000,
    log: silentLogger,
  };
  return await ToolServer.start(own);
}

/** Has the server ask; gives how it was answered. */
function question(
  server: ToolServer,
  params: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const method = "elicitation/create";
  const asked = { message: "Which seat?", requestedSchema: FORM, ...params };
  const result = server.runner.run("raw", "ask", { method, params: asked, times: 1 })
    .then(({ content }) => JSON.parse(String(content[0]?.text))[0]);
  const answer = abortable(result, AbortSignal.timeout(30_000));
  answer.catch(() => {}); // a test that has failed does not wait for it
  return answer;
}

/** Waits until a question is in view that can be answered. */
async function untilAsked(page: Page): Promise<void> {
  await page.getByRole("heading", { name: "raw asks" }).waitFor();
  await untilReady(page);
}

browserTest(
  "a form is filled in on the page, and what was typed stays between the person and the server",
  async (browser) => {
    await using folder = await TempFolder.create();
    await using server = await start(folder.path);
    const page = await openPage(browser, server);
    const answer = question(server);
    await untilAsked(page);
    assertStringIncludes(await page.locator("#message").innerText(), "Which seat?");
    const form = await page.locator(".fields").innerText();
    for (
      const text of [
        "raw receives what you enter here",
        "Your name (required)",
        "As on the badge",
        "at least 2 characters",
        "mail (optional)",
        "an email address",
        "a whole number 1 to 9",
        "Large",
        "A meal",
        "No answer",
      ]
    ) assertStringIncludes(form, text);
    assertEquals(await page.getByLabel("mail").inputValue(), "a@b.example");
    assert(await page.getByLabel("Large").isChecked());
    assert(await page.getByLabel("A bag").isChecked());

    await page.keyboard.press("y"); // what does not fit the form is not sent
    const problem = page.getByRole("alert");
    await problem.getByText("Invalid answer to raw: name is missing; seats is missing").waitFor();
    await page.keyboard.press("e");
    await page.keyboard.type("Ada");
    await page.getByLabel("seats").fill("12");
    await page.keyboard.press("Control+Enter");
    await problem.getByText("seats must be 1 to 9").waitFor();
    await page.getByLabel("seats").fill("2");
    await page.getByLabel("mail").fill("s3cret@mail.example");
    await page.getByLabel("A meal").check();
    await page.getByRole("button", { name: "Send answer" }).click();
    assertEquals(await answer, {
      action: "accept",
      content: {
        name: "Ada",
        mail: "s3cret@mail.example",
        seats: 2,
        aisle: true,
        size: "l",
        extras: ["meal", "bag"],
      },
    });
    await page.locator("#settled").getByText("Answered").waitFor();

    await page.reload();
    await page.locator("#settled").getByText("Answered").click();
    await page.getByRole("heading", { name: "raw asks" }).waitFor();
    assert(!(await page.content()).includes("s3cret"));
    await server[Symbol.asyncDispose]();
    for (const [name, text] of await filesBelow(await stateOf(folder.path))) {
      assert(!text.includes("s3cret"), name);
    }
    assertEquals(await auditedQuestions(folder.path), [
      "raw.elicitation/create elicitation page accept",
    ]);
    assertEquals(browser.problems.filter((problem) => !problem.includes("422")), []);
  },
);

browserTest(
  "a question is declined or dismissed by a key, once it has been in view",
  async (browser) => {
    await using server = await start();
    const page = await openPage(browser, server);
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    for (const [early, key, action] of [["x", "n", "decline"], ["n", "x", "cancel"]] as const) {
      const answer = question(server);
      await untilWaiting(page, 1); // before that, the heading may be the previous question's
      await page.getByRole("heading", { name: "raw asks" }).waitFor();
      await page.keyboard.press(early);
      await page.clock.runFor(500);
      await untilReady(page);
      await page.keyboard.press(key);
      assertEquals(await answer, { action });
      await untilWaiting(page, 0);
    }
    assertMatch(await page.locator("#settled").innerText(), /Dismissed[^]*Declined/);
    assertEquals(browser.problems, []);
  },
);

browserTest(
  "an address is shown with its host, and opened where it learns nothing",
  async (browser) => {
    let referrer: string | null | undefined;
    await using site = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen: () => {} },
      (request) => {
        if (new URL(request.url).pathname === "/login") referrer = request.headers.get("referer");
        const body = "<script>document.title = String(window.opener)</script>";
        return new Response(body, { headers: { "content-type": "text/html" } });
      },
    );
    const { port } = site.addr;
    await using server = await start();
    const page = await openPage(browser, server);
    const url = `http://127.0.0.1:${port}/login?x=\u202e`;
    const answer = question(server, { mode: "url", message: "Log in", elicitationId: "1", url });
    await untilAsked(page);
    const shown = await page.locator("#message").innerText();
    assertStringIncludes(shown, `at 127.0.0.1:${port}:`);
    assertStringIncludes(shown, `http://127.0.0.1:${port}/login?x=%E2%80%AE`);
    const [tab] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("button", { name: "Open in a new tab" }).click(),
    ]);
    await until(() => referrer !== undefined);
    assertEquals(referrer, null);
    await tab.waitForFunction('document.title === "null"');
    assertEquals(server.runner.elicitations.pending, 1); // it is answered when the person says so
    await page.bringToFront();
    await page.getByRole("button", { name: "I opened it" }).click();
    assertEquals(await answer, { action: "accept" });
  },
);

const HOSTILE = "\u202egnp.exe\u2066 \u001b[2J\u200b";

browserTest(
  "hostile questions are shown marked and whole, on desks and phones, in light and dark",
  async (browser) => {
    const fields = Object.fromEntries(
      Array.from({ length: 60 }, (_, at) => [`field-${at}`, {
        type: "string",
        title: `${HOSTILE} ${"x".repeat(300)}`,
        description: `${HOSTILE}\n${"Allow? [y/N] ".repeat(50)}`,
        default: HOSTILE,
      }]),
    );
    const options = Array.from({ length: 500 }, (_, at) => ({
      const: `${at}`,
      title: `${HOSTILE} ${at}`,
    }));
    const properties = { choice: { type: "string", oneOf: options }, ...fields };
    await using server = await start();
    for (
      const [colorScheme, viewport] of [
        ["light", { width: 1280, height: 800 }],
        ["dark", { width: 360, height: 740 }],
      ] as const
    ) {
      const page = await openPage(browser, server, { colorScheme, viewport });
      for (const requestedSchema of [FORM, { type: "object", properties }]) {
        const message = requestedSchema === FORM ? "Which seat?" : `${HOSTILE}\n`.repeat(400);
        const answer = question(server, { message, requestedSchema });
        await page.locator("#deny:enabled").waitFor();
        // A long message keeps the fields out of view, which are not sent unseen.
        assertEquals(await page.locator("#allow").isEnabled(), requestedSchema === FORM);
        assertEquals(await page.evaluate(layoutFaults), [], `${colorScheme} ${viewport.width}`);
        const bar = await page.locator("#decision").boundingBox();
        assert((bar?.height ?? 1000) < viewport.height / 2, "there is room for what is asked");
        const shown = await page.locator("#detail").innerText();
        for (const hidden of "\u202e\u2066\u200b\u001b") assert(!shown.includes(hidden));
        const suggested = await page.locator(".fields input.answer").first().inputValue();
        assertEquals(suggested, ""); // what cannot be shown as it is, is not sent unseen
        await page.keyboard.press("n");
        assertEquals(await answer, { action: "decline" });
        await untilWaiting(page, 0);
      }
      await page.close();
    }
    assertEquals(browser.problems, []);
  },
);

browserTest(
  "a question that is taken back gives its place to no other one unasked",
  async (browser) => {
    await using server = await start();
    const page = await openPage(browser, server);
    const taken = question(server);
    await untilAsked(page);
    await page.keyboard.press("e");
    await page.keyboard.type("for this server only");
    const next = question(server, { message: "And now?" });
    await untilWaiting(page, 2);
    await server.reset(); // both are taken back
    await untilWaiting(page, 0);
    await page.locator("#settled").getByText("Withdrawn").first().waitFor();
    assertEquals(await page.getByRole("button", { name: "Send answer" }).count(), 0);
    await Promise.allSettled([taken, next]);
    assertEquals(browser.problems, []);
  },
);

Deno.test("questions that no page answers", async (t) => {
  const step = stepsOf(t);
  await using server = await start();

  await step("a form that nobody could read is declined without asking", async () => {
    let asked = 0;
    using _answerer = server.runner.elicitations.attach((request) => {
      asked++;
      request.cancel();
    });
    const field = { type: "string", description: "x".repeat(300_000) };
    const requestedSchema = { type: "object", properties: { field } };
    assertEquals(await question(server, { requestedSchema }), { action: "decline" });
    assertEquals(asked, 0);
  });

  await step("an ApprovalClient in another process answers, and only with what fits", async () => {
    {
      await using other = await clientOf(server, RIGHT);
      assertEquals(await question(server), { action: "accept", content: RIGHT });
      assertEquals(other.lines(), ["raw asks: 'Which seat?'"]);
      const url = { mode: "url", elicitationId: "1", url: "https://example.org/" };
      // Its content fits no address: what it failed on is cancelled.
      assertEquals(await question(server, url), { action: "cancel" });
    }
    await until(() => !server.runner.elicitations.attached);
    assertEquals(await question(server), { action: "decline" });
  });

  await step("an ApprovalClient that answers no questions leaves them to others", async () => {
    const { url, token } = server.applicationDoor;
    const onRequest = async (request: ApprovalRequest) => void await request.accept();
    await using _other = await ApprovalClient.connect({ url, token, onRequest });
    assertEquals(await question(server), { action: "decline" });
    using _answerer = server.runner.elicitations.attach((request) => void request.accept(RIGHT));
    assertEquals(await question(server), { action: "accept", content: RIGHT });
  });

  await step("answers on the socket that fit no form reach no server", async () => {
    const { url, token } = server.applicationDoor;
    const socket = new WebSocket(`ws://${url.host}/approval`, {
      headers: { authorization: `Bearer ${token}` },
      protocols: ["ipybox.approval.v1", "ipybox.questions.v1"],
    });
    const messages: string[] = [];
    socket.onmessage = ({ data }) => void messages.push(String(data));
    await new Promise((resolve) => socket.onopen = resolve);
    for (
      const result of [
        true,
        null,
        { action: "accept" },
        { action: "accept", content: { ...RIGHT, seats: "2" } },
        { action: "accept", content: { ...RIGHT, more: 1 } },
        { action: "ACCEPT", content: RIGHT },
      ]
    ) {
      const answer = question(server);
      await until(() => messages.length > 0);
      const { id, method } = JSON.parse(messages.shift() ?? "");
      assertEquals(method, "elicit");
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
      assertEquals(await answer, { action: "cancel" }, JSON.stringify(result));
    }
    socket.close();
    await new Promise((resolve) => socket.onclose = resolve);
  });

  await step(
    "one waits for a page that is open or expected, and for nobody otherwise",
    async () => {
      assertEquals(await question(server), { action: "decline" });
      server.page.url(); // somebody may come
      const answer = question(server);
      await until(() => server.runner.elicitations.pending === 1);
      server.runner.elicitations.withdrawAll("end");
      assertEquals(await answer, { action: "cancel" });
    },
  );
});

/** An approver in another process. Disposing ends it. */
async function clientOf(
  server: ToolServer,
  content: Readonly<Record<string, unknown>>,
): Promise<{ lines: () => string[] } & AsyncDisposable> {
  const { url, token } = server.applicationDoor;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", client],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const input = process.stdin.getWriter();
  await input.write(new TextEncoder().encode(JSON.stringify({ url, token, content })));
  await input.close();
  let output = "";
  const read = (async () => {
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) output += text;
  })();
  await until(() => output.includes("connected"));
  return {
    lines: () => output.trim().split("\n").slice(1),
    [Symbol.asyncDispose]: async () => {
      process.kill();
      await process.status;
      await read;
    },
  };
}
