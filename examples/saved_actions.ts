// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Saved actions: code that worked becomes a function of the workspace, for all later code.
 *
 * Run it with `deno run -A examples/saved_actions.ts`. `ipybox actions` lists, checks and runs those of a
 * workspace.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

/** What an agent runs to save an action: its interface, its implementation, and what it exports. */
const SAVE = `
from pathlib import Path

action = Path("gentools/text/longest_word")
action.mkdir(parents=True)
(action / "api.py").write_text('''"""The longest word of a text."""


def run(text: str) -> str:
    """Finds the longest word; of several, the first.

    Args:
        text: Words with blanks between them.
    """
    from .impl import run as implementation

    return implementation(text)
''')
(action / "impl.py").write_text('''def run(text: str) -> str:
    return max(text.split(), key=len)
''')
(action / "__init__.py").write_text('''from .api import run

__all__ = ["run"]
''')
`;

const USE = `
from gentools.text import longest_word

print(longest_word.run(text="Agents act by writing code"))
`;

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
{
  await using executor = await CodeExecutor.start({ workspace });
  await executor.execute(SAVE);
}
await using later = await CodeExecutor.start({ workspace });
console.log((await later.execute(USE)).text);
