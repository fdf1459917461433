// Package egress is the far end of a sandbox's way out: the proxy that a sandbox's
// connections come to, outside of the sandbox. It resolves names, decides by a
// [Policy], dials, and logs; the sandbox has no network but this.
//
// The proxy speaks HTTP (CONNECT, and requests with absolute URLs) and SOCKS5, on the
// same connections: the first byte says which. It allows nothing but what a [Rule]
// names. The address that was checked is the one that is dialled, and what begins
// with TLS must ask for the host that the policy has allowed. docs/egress.md says what
// is refused, and what can't be.
//
// All that comes from the sandbox is taken to be hostile: each buffer, count and wait
// has a bound (limits.go).
package egress
