/**
 * The protocols of model providers, as far as a scripted model needs them.
 *
 * @module
 */
import { z } from "zod";
import type { Answer, OfferedTool, Seen } from "./scripted_model.ts";

/** A result of a call in a request, and the call's id where the protocol has ids. */
export type Result = Omit<Seen, "request"> & { readonly id: string };

type Message = Readonly<Record<string, unknown>>;

/** How a provider is asked, and how it answers. */
export interface Protocol {
  /** The paths at which it is asked. */
  readonly path: RegExp;
  /** The tools that a request offers. */
  readonly offered: (message: Message) => OfferedTool[];
  /** All results of calls in a request, oldest first. */
  readonly results: (message: Message) => Result[];
  /** An answer in one piece. */
  readonly whole: (answer: Answer) => unknown;
  /** An answer as server-sent events. */
  readonly stream: (answer: Answer) => Response;
}

const text = z.string();

/** The text and the images of a result's blocks. */
function resultOf(id: string, blocks: readonly { text?: string; image?: string }[]): Result {
  const texts = blocks.flatMap(({ text }) => text === undefined ? [] : [text]);
  const images = blocks.flatMap(({ image }) => image === undefined ? [] : [image]);
  return { id, text: texts.join(""), texts: texts.length, images };
}

/** The base 64 in a data URL. */
function dataOf(url: string): string {
  return url.slice(url.indexOf(",") + 1);
}

/** Events, each with its name where the protocol names them. */
function events(all: readonly (readonly [name: string | undefined, data: unknown])[]): Response {
  const lines = all.map(([name, data]) => {
    const event = name === undefined ? "" : `event: ${name}\n`;
    return `${event}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  });
  return new Response(lines.join(""), { headers: { "content-type": "text/event-stream" } });
}

// --- Anthropic Messages

const anthropicBlock = z.union([
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("image"), source: z.object({ data: text }) }),
]).transform((block) =>
  block.type === "text" ? { text: block.text } : { image: block.source.data }
);
const anthropicRequest = z.object({
  tools: z.array(z.looseObject({
    name: text,
    description: text.default(""),
    input_schema: z.unknown().optional(),
  })).default([]),
  messages: z.array(z.object({ content: z.union([text, z.array(z.looseObject({ type: text }))]) })),
});
const anthropicResult = z.object({
  type: z.literal("tool_result"),
  tool_use_id: text,
  content: z.union([text.transform((text) => [{ text }]), z.array(anthropicBlock)]).default([]),
});

const anthropic: Protocol = {
  path: /\/v1\/messages$/,
  offered: (message) =>
    anthropicRequest.parse(message).tools.map(({ name, description, input_schema }) => ({
      name,
      description,
      parameters: input_schema,
    })),
  results: (message) =>
    anthropicRequest.parse(message).messages
      .flatMap(({ content }) => typeof content === "string" ? [] : content)
      .filter(({ type }) => type === "tool_result")
      .map((block) => {
        const { tool_use_id, content } = anthropicResult.parse(block);
        return resultOf(tool_use_id, content);
      }),
  whole: (answer) => ({ ...anthropicMessage(answer), content: [anthropicContent(answer)] }),
  stream: (answer) => {
    const content = anthropicContent(answer);
    const message = anthropicMessage(answer);
    const delta = content.type === "text"
      ? { type: "text_delta", text: content.text }
      : { type: "input_json_delta", partial_json: JSON.stringify(content.input) };
    const empty = content.type === "text" ? { text: "" } : { input: {} };
    const { stop_reason, stop_sequence, usage } = message;
    const all = [
      { type: "message_start", message: { ...message, content: [], stop_reason: null } },
      { type: "content_block_start", index: 0, content_block: { ...content, ...empty } },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
      { type: "message_stop" },
    ];
    return events(all.map((event) => [event.type, event]));
  },
};

function anthropicContent(answer: Answer) {
  return "text" in answer ? { type: "text" as const, text: answer.text } : {
    type: "tool_use" as const,
    id: `toolu_${answer.id}`,
    name: answer.tool.name,
    input: answer.args,
  };
}

function anthropicMessage(answer: Answer) {
  return {
    id: `msg_${crypto.randomUUID()}`,
    type: "message",
    role: "assistant",
    model: "scripted",
    stop_reason: "text" in answer ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 10 },
  };
}

// --- OpenAI Responses

const responsesFunction = z.object({
  type: z.literal("function"),
  name: text,
  description: text.default(""),
  parameters: z.unknown().optional(),
});
const responsesTool = z.union([
  responsesFunction.transform((tool) => [offeredFunction(tool)]),
  z.object({
    type: z.literal("namespace"),
    name: text,
    tools: z.array(z.looseObject({ type: text })),
  }).transform(({ name, tools }) =>
    tools.filter(({ type }) => type === "function")
      .map((tool) => offeredFunction(responsesFunction.parse(tool), name))
  ),
  z.looseObject({ type: text }).transform((): OfferedTool[] => []), // the provider's own, such as web search
]);
const responsesBlock = z.union([
  z.object({ type: z.literal("input_text"), text }),
  z.object({ type: z.literal("input_image"), image_url: text }),
]).transform((block) =>
  block.type === "input_text" ? { text: block.text } : { image: dataOf(block.image_url) }
);
const responsesRequest = z.object({
  tools: z.array(responsesTool).default([]),
  input: z.array(z.looseObject({ type: text.optional() })),
});
const responsesResult = z.object({
  call_id: text,
  output: z.union([text.transform((text) => [{ text }]), z.array(responsesBlock)]),
});

function offeredFunction(
  { name, description, parameters }: z.output<typeof responsesFunction>,
  namespace?: string,
): OfferedTool {
  return { name, namespace, description, parameters };
}

const responses: Protocol = {
  path: /\/responses$/,
  offered: (message) => responsesRequest.parse(message).tools.flat(),
  results: (message) =>
    responsesRequest.parse(message).input
      .filter(({ type }) => type === "function_call_output")
      .map((item) => {
        const { call_id, output } = responsesResult.parse(item);
        return resultOf(call_id, output);
      }),
  whole: (answer) => responsesObject([responsesItem(answer)]),
  stream: (answer) => {
    const item = responsesItem(answer);
    const all = [
      { type: "response.created", response: { ...responsesObject([]), status: "in_progress" } },
      { type: "response.output_item.added", output_index: 0, item },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: responsesObject([item]) },
    ];
    return events(all.map((event, sequence_number) => [event.type, { ...event, sequence_number }]));
  },
};

function responsesItem(answer: Answer) {
  if ("text" in answer) {
    return {
      type: "message",
      id: `msg_${crypto.randomUUID()}`,
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: answer.text, annotations: [] }],
    };
  }
  const { id, tool: { name, namespace }, args } = answer;
  return {
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    arguments: JSON.stringify(args),
    status: "completed",
  };
}

function responsesObject(output: readonly unknown[]) {
  return {
    id: `resp_${crypto.randomUUID()}`,
    object: "response",
    created_at: 0,
    status: "completed",
    model: "scripted",
    output,
    usage: {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 10,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 110,
    },
  };
}

// --- OpenAI Chat Completions

const chatBlock = z.union([
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("image_url"), image_url: z.object({ url: text }) }),
]).transform((block) =>
  block.type === "text" ? { text: block.text } : { image: dataOf(block.image_url.url) }
);
const chatContent = z.union([
  text.transform((text) => [{ text }]),
  z.array(chatBlock),
  z.null().transform(() => []),
]).default([]);
const chatRequest = z.object({
  tools: z.array(z.object({ function: responsesFunction.omit({ type: true }) })).default([]),
  messages: z.array(z.object({ role: text, tool_call_id: text.default(""), content: chatContent })),
});

const chat: Protocol = {
  path: /\/chat\/completions$/,
  offered: (message) =>
    chatRequest.parse(message).tools.map(({ function: { name, description, parameters } }) => ({
      name,
      description,
      parameters,
    })),
  results: (message) => {
    const results: Result[] = [];
    for (const { role, tool_call_id, content } of chatRequest.parse(message).messages) {
      const last = results.at(-1);
      if (role === "tool") results.push(resultOf(tool_call_id, content));
      // The protocol has no images in results: programs add them as a message of the user.
      else if (role === "user" && last !== undefined) {
        const { images } = resultOf("", content);
        results.splice(-1, 1, { ...last, images: [...last.images, ...images] });
      }
    }
    return results;
  },
  whole: (answer) =>
    chatObject(
      "chat.completion",
      { message: { role: "assistant", ...chatMessage(answer) } },
      answer,
    ),
  stream: (answer) => {
    const kind = "chat.completion.chunk";
    const delta = { role: "assistant", ...chatMessage(answer) };
    return events([
      [undefined, chatObject(kind, { delta, finish_reason: null }, answer)],
      [undefined, chatObject(kind, { delta: {} }, answer)],
      [undefined, "[DONE]"],
    ]);
  },
};

function chatMessage(answer: Answer) {
  if ("text" in answer) return { content: answer.text };
  const { id, tool: { name }, args } = answer;
  const call = { name, arguments: JSON.stringify(args) };
  return { content: null, tool_calls: [{ index: 0, id, type: "function", function: call }] };
}

function chatObject(object: string, choice: Message, answer: Answer) {
  const finish_reason = "text" in answer ? "stop" : "tool_calls";
  return {
    id: "chat",
    object,
    created: 0,
    model: "scripted",
    choices: [{ index: 0, finish_reason, ...choice }],
    usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
  };
}

// --- Gemini generateContent

const geminiData = z.object({ inlineData: z.object({ data: text }) });
const geminiPart = z.looseObject({
  functionResponse: z.looseObject({
    id: text.default(""),
    response: z.record(text, z.unknown()),
    parts: z.array(geminiData).default([]),
  }).optional(),
  inlineData: geminiData.shape.inlineData.optional(),
});
const geminiRequest = z.object({
  tools: z.array(z.object({
    functionDeclarations: z.array(z.object({
      name: text,
      description: text.default(""),
      parameters: z.unknown().optional(),
      parametersJsonSchema: z.unknown().optional(),
    })).default([]),
  })).default([]),
  contents: z.array(z.object({ parts: z.array(geminiPart).default([]) })),
});

const gemini: Protocol = {
  path: /:(generateContent|streamGenerateContent)$/,
  offered: (message) =>
    geminiRequest.parse(message).tools.flatMap(({ functionDeclarations }) =>
      functionDeclarations.map(({ name, description, parameters, parametersJsonSchema }) => ({
        name,
        description,
        parameters: parametersJsonSchema ?? parameters,
      }))
    ),
  results: (message) => {
    const results: Result[] = [];
    for (const { parts } of geminiRequest.parse(message).contents) {
      for (const { functionResponse, inlineData } of parts) {
        if (functionResponse !== undefined) {
          const { id, response, parts } = functionResponse;
          const { output, error } = response;
          const given = output ?? error;
          const images = parts.map(({ inlineData: { data } }) => ({ image: data }));
          const text = typeof given === "string" ? given : JSON.stringify(response);
          results.push(resultOf(id, [{ text }, ...images]));
          continue;
        }
        const last = results.at(-1);
        if (inlineData === undefined || last === undefined) continue;
        results.splice(-1, 1, { ...last, images: [...last.images, inlineData.data] });
      }
    }
    return results;
  },
  whole: geminiResponse,
  stream: (answer) => events([[undefined, geminiResponse(answer)]]),
};

function geminiResponse(answer: Answer) {
  const part = "text" in answer
    ? { text: answer.text }
    : { functionCall: { id: answer.id, name: answer.tool.name, args: answer.args } };
  return {
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 },
  };
}

/** All protocols. */
export const PROTOCOLS: readonly Protocol[] = [anthropic, responses, chat, gemini];
