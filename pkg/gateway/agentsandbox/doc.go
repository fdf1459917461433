// Package agentsandbox is a face of package gateway: it stands in the place of agent-sandbox's router
// (https://github.com/kubernetes-sigs/agent-sandbox), and of the runtime in each sandbox behind it, for
// agent-sandbox's clients, unmodified.
//
// A request names a sandbox by the router's headers (route.go), or by a path below /agent-sandbox. At the
// ports of the runtimes the gateway itself answers (http.go): the verbs of the Python runtime (execute.go,
// legacyfiles.go), and those of sandboxd, REST (files.go, upload.go, about.go) and gRPC (grpc.go, process.go,
// input.go, watch.go, with the messages of messages.go). All of it is translated to podapi, so that in the
// sandbox there is nothing new. Requests to other ports go to servers in the sandbox.
//
// A sandbox is one of the tenant's, or a Sandbox that agent-sandbox's clients have made from a template with
// the label [gateway.LabelTenant].
package agentsandbox
