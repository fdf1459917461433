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

// podapiPrefix begins the operations that are calls of podapi, and toolPrefix those that use a tool.
const (
	podapiPrefix = "podapi.v1."
	toolPrefix   = "mcp/"
)

// nameOf returns the name of an act's span. There are as many as the gateway has operations.
func nameOf(a gateway.Act) string { return cmp.Or(a.Operation, "unknown") }

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
	if method, ok := strings.CutPrefix(a.Operation, podapiPrefix); ok {
		all = append(all, semconv.RPCSystemNameGRPC, semconv.RPCMethod(podapiPrefix+method))
	} else {
		all = append(all, httpAttributes(a, r)...)
	}
	return append(all, clientAttributes(r)...)
}

// httpAttributes are those of a server's span by the conventions for HTTP.
func httpAttributes(a gateway.Act, r *http.Request) []attribute.KeyValue {
	where := r.URL.Path
	if a.Operation == gateway.RouteOperation {
		where = strings.Join(a.Paths, "") // what is secret in it is left out there
	}
	all := []attribute.KeyValue{semconv.URLPath(text(where)), semconv.URLScheme(schemeOf(r))}
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
func outcomeOf(o gateway.Outcome) []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.HTTPRequestBodySize(int(o.In)),
		semconv.HTTPResponseBodySize(int(o.Out)),
	}
	if o.Status != 0 {
		all = append(all, semconv.HTTPResponseStatusCode(o.Status))
	}
	switch {
	case o.Class != "":
		all = append(all, semconv.ErrorTypeKey.String(text(o.Class)))
	case o.Status >= http.StatusInternalServerError:
		all = append(all, semconv.ErrorTypeKey.String(strconv.Itoa(o.Status)))
	}
	return all
}

// failed reports whether an act failed for a reason that is not its caller's: it has a status of the
// server's fault, none at all, or one of success that was not meant so.
func failed(o gateway.Outcome) bool {
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
