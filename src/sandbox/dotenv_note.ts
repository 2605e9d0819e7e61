import { join } from "node:path";

/**
 * The file whose presence says that a `.env` beside its folder may be executed code's: there was none
 * when code could begin to write there. Code neither sees nor removes it.
 */
export const DOTENV_NOTE = ".ipybox/no-dotenv";

/** Notes that a workspace has no `.env`, before code can write one. */
export async function noteAbsentDotenv(workspace: string): Promise<void> {
  try {
    await Deno.lstat(join(workspace, ".env"));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await makeNote(join(workspace, DOTENV_NOTE));
  }
}

/** Whatever is there already is note enough: a workspace from elsewhere may have a link in its place. */
async function makeNote(path: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, "", { createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
