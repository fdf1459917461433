// Package gateway serves sandboxes over HTTP: to callers of any language, and to several tenants
// that do not see each other.
//
// A [Gateway] keeps nothing that another could not learn: the cluster, or the state directory of a
// local launcher, is its database. So any number of them may serve side by side, and each may end
// at any time.
//
// A request passes these layers:
//
//   - What it is for: a server in a sandbox, if its host or its headers name one (route.go), and
//     otherwise an operation (gateway.go).
//   - Who sends it (callers.go), by the tokens that [Tenants] knows (tenants.go, tokenreview.go).
//     A server can also be reached by a link or at a public port (admit.go, link.go, lookups.go).
//   - How often, and how many at once (rates.go). While the request lasts, its token is checked
//     again (calls.go).
//   - What it names: a tenant and a name make the launcher's id (names.go).
//   - The operation: one of REST (sandboxes.go, files.go, exec.go and their like), or a call of podapi
//     that passes to the agent (podapi.go, podapimethods.go). What a create may ask for is in spec.go,
//     policy.go and volumes.go. What is made or resumed fits into quota and budget (reserve.go),
//     which gateways agree on in the [Ledger] (book.go).
//   - A message of the Model Context Protocol in place of an operation (mcp.go), which works in the
//     sandbox that it names or in its session's own (mcpsessions.go, mcpsandbox.go).
//   - Instead of all that, a [Face] for callers who speak another API (face.go), which has a [Call] to do
//     the same by (facecall.go), also for those who have a token for one sandbox (sandboxtoken.go).
//   - The open sandbox, which calls share (held.go), and which is resumed if it sleeps (wake.go).
//     Then comes one call of its client, or a connection to its port (ways.go, proxy.go).
//
// What a caller does is an [Act], which each [Observer] sees before it and after it (act.go), with
// the bytes that passed (counted.go), and without what looks like a secret (redact.go). A gateway tells
// whether it can serve (ready.go), ends in steps (openstreams.go, serving.go), and leaves commands
// running (reconnect.go).
//
// Beside requests, one gateway for all ends what is over, and keeps the rest from being reaped
// (sweep.go).
//
// Errors leave as problem details with the class of podapi (problem.go), or as statuses of gRPC
// (podapistatus.go). The operations describe themselves: the document is at /openapi.json.
package gateway
