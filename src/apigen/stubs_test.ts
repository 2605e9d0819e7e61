import { assertEquals } from "@std/assert";
import {
  MANY_NAMES,
  NAMED_TOOLS,
  PATTERN_TOOLS,
  TEXT_TOOLS,
} from "../../tests/fixtures/hostile_tools.ts";
import { testPython } from "../../tests/support/python.ts";
import { isObject, toJson } from "./json.ts";
import { moduleNames } from "./names.ts";
import { stubOfModule, stubOfPackage } from "./stubs.ts";

/** Reports everything in a stub that is not a declaration: anything that does more than define and name. */
const INSPECT = `
import ast, json, sys
plain = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
         ast.AnnAssign, ast.Assign, ast.Pass)
found = []
for text in json.load(sys.stdin):
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        found.append(f"{error}: {text[:2000]}")
        continue
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, plain):
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) not in ("staticmethod", "TypedDict"):
            found.append(ast.unparse(node))
        elif isinstance(node, ast.Name) and node.id in ("builtins", "__import__", "CANARY"):
            found.append(node.id)
print(json.dumps(found))
`;

Deno.test("stubs of hostile tools declare, and nothing else", async () => {
  const tools = [...NAMED_TOOLS, MANY_NAMES, ...TEXT_TOOLS, ...PATTERN_TOOLS]
    .map((tool) => toJson(tool)).filter(isObject);
  const names = moduleNames(tools.map((tool) => String(tool.get("name"))));
  const modules = new Map([...names.values()].map((module, id) => [module, id]));
  const stubs = tools.map((definition, id) => {
    const tool = String(definition.get("name"));
    return stubOfModule({ server: "hostile", tool, module: names.get(tool) ?? "" }, {
      definition,
    }, id).text;
  });

  const python = new Deno.Command(testPython(), {
    args: ["-c", INSPECT],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const input = new Blob([JSON.stringify([stubOfPackage(modules), ...stubs])]).stream();
  const [, { stdout }] = await Promise.all([input.pipeTo(python.stdin), python.output()]);

  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), []);
});
