/**
 * What an execution produces, as data.
 *
 * @module
 */

/** A bundle of one value in several MIME types, as in Jupyter's `display_data`. */
export type MimeBundle = Readonly<Record<string, unknown>>;

/** One output of an execution, named after Jupyter's message types. */
export type Output =
  | { readonly type: "stream"; readonly name: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "execute_result"; readonly data: MimeBundle; readonly metadata: MimeBundle }
  | {
    readonly type: "display_data";
    readonly data: MimeBundle;
    readonly metadata: MimeBundle;
    readonly displayId?: string;
  }
  | {
    readonly type: "error";
    readonly ename: string;
    readonly evalue: string;
    readonly traceback: readonly string[];
  };

/** A file with all text of an execution, of which only the beginning and the end are in memory. */
export interface WholeText {
  /** Its path. */
  readonly path: string;
  /** How many characters it has. */
  readonly characters: number;
}

/** What an execution produced. */
export interface ExecutionResult {
  /**
   * The text of stdout, stderr, results and displays in their order, without blank lines
   * around it; each result and display is on lines of its own and a progress bar is its last state.
   * `null` when there was none.
   */
  readonly text: string | null;
  /** Paths of the images' files, in order: one for each of the first 1000 outputs with a PNG, a JPEG or an SVG. */
  readonly images: readonly string[];
  /** All outputs in order, displays in their last state. */
  readonly outputs: readonly Output[];
  /** The file with the whole text, where `text` leaves something out. */
  readonly wholeText?: WholeText | undefined;
}
