// Package e2b is a face of package gateway: it serves the clients of E2B, unmodified. It speaks the two
// APIs that they call: the control plane, by which sandboxes are made, listed and ended (control.go),
// and envd, which E2B has in each sandbox, for commands and files (envd.go). Both are translated into
// what the gateway does anyway; in the sandbox there is nothing new. Calls of envd are Connect's in JSON
// (connect.go and its like). Its files are the service filesystem.Filesystem (filesystemservice.go,
// filesystem.go), with watches that stream (watch.go) or are asked for (watchers.go), and the content by /files
// (files.go, upload.go), also for a URL that is signed (signature.go); commands and terminals are the service
// process.Process (process.go and its like).
//
// A sandbox's id is NAME--TENANT, so that its servers have the hosts that E2B's clients make up:
// PORT-NAME--TENANT.DOMAIN. A tenant's own name of it, alone, is understood, too.
//
// A client calls the control plane with a tenant's key. For each sandbox it gets a token, which opens
// that one alone (see [gateway.Call.SandboxToken]), and with which it calls envd and signs the URLs of
// files.
package e2b
