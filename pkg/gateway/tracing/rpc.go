package tracing

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/podagent/podagent/pkg/gateway"
)

// isRPC reports whether an act is a call of podapi: then its span follows the conventions for gRPC, and
// otherwise those for HTTP. Calls of gRPC to servers in sandboxes are requests like others.
func isRPC(a gateway.Act, r *http.Request) bool {
	return a.Operation != gateway.RouteOperation && r.ProtoMajor == 2 &&
		strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// rpcErrors are the codes that are errors of a server.
var rpcErrors = []string{"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}

// rpcAttributes are those of a server's span by the conventions for gRPC.
func rpcAttributes(a gateway.Act, r *http.Request) []attribute.KeyValue {
	all := []attribute.KeyValue{semconv.RPCSystemNameGRPC}
	if a.Operation != "" {
		all = append(all, semconv.RPCMethod(a.Operation))
	} else {
		all = append(all, semconv.RPCMethod("_OTHER"), semconv.RPCMethodOriginal(short(strings.TrimPrefix(r.URL.Path, "/"))))
	}
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		n, _ := strconv.Atoi(port)
		all = append(all, semconv.NetworkPeerAddress(host), semconv.NetworkPeerPort(n))
	}
	return all
}
