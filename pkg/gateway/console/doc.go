// Package console serves a page for people in front of a gateway: their sandboxes, and what is in each. The
// page calls the gateway's REST API, and nothing else.
//
// A browser logs in by a tenant's token, and gets a cookie in its place: the token, sealed under a key that the
// gateways of a domain share, so that any of them serves the session and none keeps it. Scripts cannot read
// the cookie. It counts below /console alone, for requests of the page's own origin alone, and never where a
// server of a sandbox is served. Whatever the token may not do, the session may not do either.
package console
