// Package e2b lets E2B's SDKs work with the sandboxes of a gateway, unmodified. It translates E2B's
// calls into what the gateway does for its other callers, and decides nothing.
//
//   - Envd's calls are Connect's in JSON (connect.go, connectevents.go, connecterrors.go).
package e2b
