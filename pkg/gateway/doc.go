// Package gateway serves sandboxes over HTTP: to callers of any language, and to several tenants
// that do not see each other.
//
// A [Gateway] keeps nothing that another could not learn: the cluster, or the state directory of a
// local launcher, is its database. So any number of them may serve side by side, and each may end
// at any time.
//
// A call passes these layers: who calls (tenants.go), what it names (names.go), the operation
// (sandboxes.go, files.go, exec.go), and one call of the sandbox's client, which comes from those
// that are held open (held.go). Errors leave as problem details with the class of podapi
// (problem.go). The operations describe themselves: the document is at /openapi.json.
package gateway
