package tracing

import (
	"cmp"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/podagent/podagent/pkg/gateway"
)

const statusError = codes.Error

// toolPrefix begins the operations that use a tool.
const toolPrefix = "mcp/"

// nameOf returns the name of an act's span. There are as many as the gateway has operations.
func nameOf(a gateway.Act, r *http.Request) string {
	if a.Operation == "" && isRPC(a, r) {
		return "grpc" // a method that there is not
	}
	return cmp.Or(a.Operation, "unknown")
}

// text is a text that may come from anybody. The protocol of traces takes UTF-8 alone, and
// a whole batch of spans would be lost with another text.
func text(s string) string {
	if len(s) > valueLength*4 { // which no limit of characters leaves over
		s = s[:valueLength*4]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func short(s string) string { return text(s[:min(len(s), nameLength)]) }

// attributesOf returns what an act's span has before it acts.
func attributesOf(a gateway.Act, r *http.Request) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("podagent.request_id", a.ID),
		attribute.String("podagent.tenant", text(a.Tenant)),
	}
	if a.Sandbox != "" {
		all = append(all, attribute.String("podagent.sandbox", text(a.Sandbox)))
	}
	if a.ExecID != "" {
		all = append(all, attribute.String("podagent.exec_id", text(a.ExecID)))
	}
	if a.Port != 0 {
		all = append(all, attribute.Int("podagent.port", a.Port))
	}
	if len(a.Paths) > 0 && a.Operation != gateway.RouteOperation {
		all = append(all, attribute.StringSlice("podagent.paths", texts(a.Paths)))
	}
	if isRPC(a, r) {
		all = append(all, rpcAttributes(a, r)...)
	} else {
		all = append(all, httpAttributes(a, r)...)
	}
	return append(append(all, serverAttributes(r)...), clientAttributes(r)...)
}

// httpAttributes are those of a server's span by the conventions for HTTP.
func httpAttributes(a gateway.Act, r *http.Request) []attribute.KeyValue {
	where := r.URL.Path
	if a.Operation == gateway.RouteOperation {
		where = strings.Join(a.Paths, "") // what is secret in it is left out there
	}
	all := []attribute.KeyValue{semconv.URLPath(text(where)), semconv.URLScheme(schemeOf(r))}
	if a.Pattern != "" {
		all = append(all, semconv.HTTPRoute(a.Pattern))
	}
	if slices.Contains(methods, r.Method) {
		return append(all, semconv.HTTPRequestMethodKey.String(r.Method))
	}
	return append(all, semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(short(r.Method)))
}

// methods are those of HTTP. A caller may make up others.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY",
}

// serverAttributes say whom a request was sent to, by its sender's words.
func serverAttributes(r *http.Request) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	all := []attribute.KeyValue{semconv.ServerAddress(short(host))}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		all = append(all, semconv.ServerPort(int(n)))
	}
	return all
}

// clientAttributes say who sent a request.
func clientAttributes(r *http.Request) []attribute.KeyValue {
	all := []attribute.KeyValue{semconv.NetworkProtocolVersion(versionOf(r))}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		all = append(all, semconv.ClientAddress(host))
	}
	if agent := r.UserAgent(); agent != "" {
		all = append(all, semconv.UserAgentOriginal(short(agent)))
	}
	return all
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func versionOf(r *http.Request) string {
	if r.ProtoMajor == 1 {
		return "1." + strconv.Itoa(r.ProtoMinor)
	}
	return strconv.Itoa(r.ProtoMajor)
}

// outcomeOf returns what an act's span has of how it ended.
func outcomeOf(o gateway.Outcome, rpc bool) []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.HTTPRequestBodySize(int(o.In)),
		semconv.HTTPResponseBodySize(int(o.Out)),
	}
	switch {
	case rpc && o.Code != "":
		all = append(all, semconv.RPCResponseStatusCode(o.Code))
	case !rpc && o.Status != 0:
		all = append(all, semconv.HTTPResponseStatusCode(o.Status))
	}
	if o.Class != "" {
		all = append(all, attribute.String("podagent.class", text(o.Class)))
	}
	if kind := errorType(o, rpc); kind != "" {
		all = append(all, semconv.ErrorTypeKey.String(text(kind)))
	}
	return all
}

// errorType returns what kind of error an act ended with; "" if it is none by the conventions. Those for
// gRPC want the code in place of the class.
func errorType(o gateway.Outcome, rpc bool) string {
	switch {
	case rpc && slices.Contains(rpcErrors, o.Code):
		return o.Code
	case rpc && o.Code != "":
		return ""
	case o.Class != "":
		return o.Class
	case o.Status >= http.StatusInternalServerError:
		return strconv.Itoa(o.Status)
	}
	return ""
}

// failed reports whether an act failed for a reason that is not its caller's: it has a status of the
// server's fault, none at all, or one of success that was not meant so.
func failed(o gateway.Outcome, rpc bool) bool {
	if rpc && o.Code != "" {
		return slices.Contains(rpcErrors, o.Code)
	}
	return o.Status >= http.StatusInternalServerError || o.Status == 0 ||
		o.Class != "" && o.Status < http.StatusBadRequest
}

// texts are arguments or paths.
func texts(all []string) []string {
	clean := make([]string, 0, len(all))
	for _, s := range all {
		clean = append(clean, text(s))
	}
	return clean
}

// executable returns the name of a command's program; "" for a script.
func executable(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return short(path.Base(args[0]))
}
