import type { Logger } from "./log.ts";

/** The longest time without a turn of the event loop that is not logged. */
const MAX_STALL_MS = 500;
const TICK_MS = 250;

/** The work that this process began last, and when it began. */
let doing = "starting";
let since = performance.now();
/** The longest work since the last turn. */
let longest = { work: doing, ms: 0 };

/** Notes work that begins now, in case it keeps everything else waiting. */
export function beginWork(work: string): void {
  const now = performance.now();
  if (now - since > longest.ms) longest = { work: doing, ms: now - since };
  [doing, since] = [work, now];
}

/** Logs when the event loop has stood still, with the longest work meanwhile, until disposed. */
export function watchStalls(log: Logger): Disposable {
  beginWork("starting");
  longest = { work: doing, ms: 0 };
  const timer = setInterval(() => {
    beginWork("waiting");
    const { work, ms } = longest;
    longest = { work: doing, ms: 0 };
    if (ms > MAX_STALL_MS) log.info(`Nothing else could be done for ${Math.round(ms)} ms: ${work}`);
  }, TICK_MS);
  Deno.unrefTimer(timer);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
