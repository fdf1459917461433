package portforward

import (
	"io"
	"net"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// link is an upgraded connection to the API server, which carries the frames. A
// Write that is small enough is one message or TLS record.
type link struct {
	io.ReadWriteCloser
	// socket is the connection at the bottom. Closing it ends whatever blocks in the
	// layers above, for which a TLS connection's own Close may wait.
	socket net.Conn
}

// proxy returns the function that chooses the proxy of a request to the API server.
func (d *Dialer) proxy() func(*http.Request) (*url.URL, error) {
	if d.config.Proxy != nil {
		return d.config.Proxy
	}
	return utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
}
