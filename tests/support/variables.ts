/** Sets variables of this process until it is disposed of. */
export function variables(values: Readonly<Record<string, string>>): Disposable {
  const before = Object.keys(values).map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of Object.entries(values)) Deno.env.set(name, value);
  return {
    [Symbol.dispose]() {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
    },
  };
}
