import { relatedTo, stem } from "./word_forms.ts";

/** A text of a document, and how much its words count. */
export interface WeightedText {
  readonly text: string;
  readonly weight: number;
}

/** A document that matches a query. */
export interface Match<T> {
  readonly item: T;
  readonly score: number;
}

/** How soon more of the same word in one document stops to count; the usual value. */
const SATURATION = 1.2;
/** How much long documents are held back; the usual value. */
const LENGTH_PENALTY = 0.75;
/** What a word counts that only begins like the one asked for. */
const PREFIX_WEIGHT = 0.5;
/** How much better a document is that has all words of a query. */
const COVERAGE = 1;
const SHORTEST_PREFIX = 3;
/** What another word for the one asked for counts. */
const RELATED_WEIGHT = 0.6;
/** Words of a query that are looked for: each costs a pass over all known words. */
const MAX_QUERY_WORDS = 32;

/** Ranks documents by how well they answer a query, with Okapi BM25. */
export class Bm25<T> {
  readonly #documents: { readonly item: T; readonly length: number }[] = [];
  readonly #postings = new Map<string, Map<number, number>>();
  readonly #averageLength: number;

  /** Reads all documents. */
  constructor(items: Iterable<T>, textsOf: (item: T) => readonly WeightedText[]) {
    let total = 0;
    for (const item of items) {
      const id = this.#documents.length;
      let length = 0;
      for (const { text, weight } of textsOf(item)) {
        for (const word of wordsOf(text).map(stem)) {
          const posting = this.#postings.get(word) ?? new Map<number, number>();
          this.#postings.set(word, posting.set(id, (posting.get(id) ?? 0) + weight));
          length += weight;
        }
      }
      this.#documents.push({ item, length });
      total += length;
    }
    this.#averageLength = total / Math.max(1, this.#documents.length);
  }

  /**
   * Finds the documents that have a word of the query, another form of it, another word for it, or one
   * that begins with it.
   */
  search(query: string): Match<T>[] {
    const scores = new Map<number, number>();
    const found = new Map<number, number>();
    const words = new Set(wordsOf(query).slice(0, MAX_QUERY_WORDS).map(stem));
    for (const word of words) {
      for (const [id, score] of this.#scoresOf(word)) {
        scores.set(id, (scores.get(id) ?? 0) + score);
        found.set(id, (found.get(id) ?? 0) + 1);
      }
    }
    // What has most of the words is meant, even where a single one is rare.
    const covered = (id: number) => 1 + COVERAGE * (found.get(id) ?? 0) / words.size;
    return [...scores].map(([id, score]): [number, number] => [id, score * covered(id)])
      .sort(([a, one], [b, other]) => other - one || a - b)
      .flatMap(([id, score]) => {
        const document = this.#documents[id];
        return document === undefined ? [] : [{ item: document.item, score }];
      });
  }

  /** What one word of a query is worth, by document: its best form in each. */
  #scoresOf(word: string): Map<number, number> {
    const best = new Map<number, number>();
    const related = relatedTo(word);
    for (const [known, posting] of this.#postings) {
      const isPrefix = word.length >= SHORTEST_PREFIX && known.startsWith(word);
      const weight = known === word
        ? 1
        : related.has(known)
        ? RELATED_WEIGHT
        : isPrefix
        ? PREFIX_WEIGHT
        : 0;
      if (weight === 0) continue;
      const count = this.#documents.length;
      const rarity = Math.log(1 + (count - posting.size + 0.5) / (posting.size + 0.5));
      for (const [id, frequency] of posting) {
        const length = (this.#documents[id]?.length ?? 0) / this.#averageLength;
        const damping = SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length);
        const score = rarity * weight * frequency * (SATURATION + 1) / (frequency + damping);
        best.set(id, Math.max(best.get(id) ?? 0, score));
      }
    }
    return best;
  }
}

/** Words so common that they say nothing of a tool. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  ("a an and are as at be by can did do does for from had has have how i in into is it its me much " +
    "my of on one or our over some somebody that the their there this to together use want was we " +
    "what when which why with you your").split(" "),
);

/**
 * The words of a text: lower case, `camelCase` and `snake_case` apart, plural and singular the same.
 */
export function wordsOf(text: string): string[] {
  const words = text
    .replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word)).map(singular);
}

function singular(word: string): string {
  if (word.length > 4 && word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  if (word.length > 4 && /(?:ch|sh|x|ss)es$/.test(word)) return word.slice(0, -2);
  return word.length > 3 && /[^su]s$/.test(word) ? word.slice(0, -1) : word;
}
