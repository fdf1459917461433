// Package sshport is a gateway's port of SSH: ssh NAME@GATEWAY reaches the sandbox NAME of the tenant
// that the client's key is of, and NAME+TERMINAL its terminal of that name. All that clients do goes
// through a [gateway.Visit], by the rules that hold for HTTP; package sshserver does it.
//
// It promises:
//
//   - Before a client has proved whose its key is, it learns whether the key counts, and nothing about
//     tenants and sandboxes. After that, what is another tenant's is not there.
//   - What clients can take before they are let in is bounded by number and time (limits.go). A newcomer
//     takes the place of one of the host that has the most, by chance: of those that have shown no key that
//     counts, if these are more, and else of those that have. Silent connections keep nobody out who shows a key.
//   - A tenant that has as many connections as it may takes no place of another's.
//   - A key that counts no longer, or that opens other things than before, ends its connections within seconds.
//   - When the gateway ends, connections without sessions end at once, and the others with the last
//     requests.
package sshport
