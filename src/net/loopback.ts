/** The names by which a program on this machine reaches it, as they stand in a `Host` header. */
export const LOOPBACK_HOSTS: readonly string[] = ["127.0.0.1", "localhost", "[::1]"];
