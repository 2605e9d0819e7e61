/** What {@linkcode untilSent} does at a response's end. */
export interface UntilSentOptions {
  /** Ends with the response, however that ends. */
  readonly use: Disposable;
  /** Called when the client has gone before it had all. */
  readonly onGone?: () => void;
}

/**
 * Follows a response to its end: when its body has been sent, or nobody reads it any more.
 *
 * The request's own signal cannot tell: in Deno it also aborts after responses that were sent.
 */
export function untilSent(response: Response, options: UntilSentOptions): Response {
  const { use, onGone } = options;
  if (response.body === null) {
    use[Symbol.dispose]();
    return response;
  }
  const body = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      flush: () => use[Symbol.dispose](),
      cancel: () => {
        use[Symbol.dispose]();
        onGone?.();
      },
    }),
  );
  return new Response(body, response);
}
