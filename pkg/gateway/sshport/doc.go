// Package sshport is a gateway's port of SSH: ssh NAME@GATEWAY reaches the sandbox NAME of the tenant
// that the client's key is of, and NAME+TERMINAL its terminal of that name. All that clients do goes
// through a [gateway.Visit], by the rules that hold for HTTP; package sshserver does it.
//
// It promises:
//
//   - Before a client has proved whose its key is, it learns whether the key counts, and nothing about
//     tenants and sandboxes. After that, what is another tenant's is not there.
//   - What clients can take before they are let in is bounded by number and time (limits.go), and a newcomer
//     takes the place of the one that has been at it for longest: nobody keeps others out by connections alone.
//   - A key that counts no longer ends its connections within seconds.
//   - When the gateway ends, connections without sessions end at once, and the others with the last
//     requests.
package sshport
