package console

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
)

// Options configure a [Console].
type Options struct {
	// Gateway serves the API, and all that is not below /console.
	Gateway *gateway.Gateway
	// Local, unless empty, is the one origin with a name of this machine (localhost, a name below it, or an
	// address of the loopback) at which the console is served, such as http://console-5f2c.localhost:8080. Cookies do not
	// tell ports apart, so that every server of this machine gets those of a name which it shares: choose one
	// that nobody can guess (see [LocalOrigin]). Without it, only other names have a console; IP addresses never do.
	Local string
	// Code, unless nil, lets one browser in without a token.
	Code *Code
}

// Console is a handler of all that a gateway serves, with the console.
type Console struct {
	options Options
	files   map[string]*file // by their paths
	logouts *logouts
}

// The paths of the console.
const (
	pagePath   = "/console"
	filesPath  = pagePath + "/files/"
	loginPath  = pagePath + "/login"
	logoutPath = pagePath + "/logout"
	// apiPath begins the paths of the API for sessions: what follows /console is the gateway's own path.
	apiPath = pagePath + "/api/v1/"
)

// New returns a console. Sessions are sealed under keys that are derived from the gateway's LinkKeys, and last for as
// long as their key is there. Gateways with the same LinkKeys tell each other by their Ledger which have been ended.
func New(o Options) *Console {
	return &Console{options: o, files: pageFiles(), logouts: newLogouts(o.Gateway.Ledger)}
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != pagePath && !strings.HasPrefix(r.URL.Path, pagePath+"/") || !c.options.Gateway.Own(r) {
		c.options.Gateway.ServeHTTP(w, r)
		return
	}
	guard(w.Header())
	if err := c.checkHost(r.Host); err != nil {
		refuse(w, http.StatusForbidden, "permission", err.Error())
		return
	}
	switch {
	case r.URL.Path == pagePath+"/":
		http.Redirect(w, r, pagePath, http.StatusPermanentRedirect)
	case r.URL.Path == loginPath:
		c.login(w, r)
	case r.URL.Path == logoutPath:
		c.logout(w, r)
	case strings.HasPrefix(r.URL.Path, apiPath):
		c.call(w, r)
	default:
		c.servePage(w, r)
	}
}

// guard keeps other pages from the console's answers.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

var (
	errShared  = errors.New("the console is not served at a name of this machine that other servers share: open the address that the gateway printed")
	errAddress = errors.New("the console is not served at an IP address, since a browser gives its cookie to each server at that address: open it at a name that is the gateway's alone")
)

// checkHost refuses a host whose cookies another server may get: cookies do not tell ports apart. That a name
// is the gateway's alone is for who gives the names to see to.
func (c *Console) checkHost(host string) error {
	_, at, ok := strings.Cut(c.options.Local, "://")
	switch {
	case ok && strings.EqualFold(at, host):
		return nil
	case isThisMachine(host):
		return errShared
	case isAddress(host):
		return errAddress
	}
	return nil
}

// isThisMachine reports whether a host, with or without a port, is a name of the machine that a browser
// runs on. All its servers get the cookies of such a name.
func isThisMachine(host string) bool {
	name := nameOf(host)
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback() || addr.IsUnspecified()
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isAddress reports whether a host, with or without a port, is an IP address. So is each name that ends with a
// number, as browsers read it (the URL standard's host parser).
func isAddress(host string) bool {
	name := nameOf(host)
	last := name[strings.LastIndex(name, ".")+1:]
	return strings.Contains(name, ":") || last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x")
}

// nameOf returns a host without its port.
func nameOf(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

var (
	errSite    = errors.New("this is for the console's own pages alone")
	errBrowser = errors.New("this takes a browser that says where requests come from (Sec-Fetch-Site), as those since 2023 do")
)

// checkSite refuses a request that does not come from a page of the console's own origin. Browsers set these
// headers, and let no page change them; that a request has none of them is no proof.
func checkSite(r *http.Request) error {
	sites, origins := r.Header["Sec-Fetch-Site"], r.Header["Origin"]
	if len(sites) > 1 || len(sites) == 1 && sites[0] != "same-origin" {
		return errSite
	}
	if len(origins) > 1 || len(origins) == 1 && !isOrigin(origins[0], r.Host) {
		return errSite
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header["Upgrade"] != nil
	if len(origins) == 0 && (changes || len(sites) == 0) {
		return errBrowser
	}
	return nil
}

// isOrigin reports whether an origin is of a host. Its scheme is https, unless the host is of this machine.
func isOrigin(origin, host string) bool {
	scheme, at, _ := strings.Cut(origin, "://")
	return strings.EqualFold(at, host) && (scheme == "https" || scheme == "http" && isThisMachine(host))
}
