package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

func TestWebSocketComesFirst(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, listen(t, echo))
	ping(t, dial(t, c), "hello")
	if ws, spdy := c.websockets.Load(), c.spdys.Load(); ws != 1 || spdy != 0 {
		t.Errorf("%d requests for WebSocket, %d for SPDY", ws, spdy)
	}
}

// A server that requires SPDY is asked for WebSocket once, and again after some
// time, or when SPDY fails, too.
func TestWishForSPDYIsRemembered(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, listen(t, echo))
	c.refuseWebSocket = apierrors.NewForbidden(corev1.Resource("pods/portforward"), "pod", errors.New("no get"))
	d := newDialer(t, c)
	use := func(wantWS, wantSPDY int64) {
		t.Helper()
		conn, err := d.Dial(t.Context(), "ns", "pod", 1)
		if err == nil {
			ping(t, conn, "hello")
			_ = conn.Close()
		}
		if ws, spdy := c.websockets.Load(), c.spdys.Load(); ws != wantWS || spdy != wantSPDY {
			t.Fatalf("%d requests for WebSocket and %d for SPDY, not %d and %d", ws, spdy, wantWS, wantSPDY)
		}
	}
	use(1, 1)
	use(1, 2)
	d.spdyUntil.Store(time.Now().UnixNano()) // the time is over
	use(2, 3)
	c.refuseSPDY = apierrors.NewBadRequest("no longer")
	use(2, 4)
	c.refuseWebSocket = nil
	use(3, 4)
	use(4, 4)
}

func TestRefusalsKeepTheirClass(t *testing.T) {
	refusals := map[string]struct {
		err *apierrors.StatusError
		is  func(error) bool
	}{
		"forbidden":   {apierrors.NewForbidden(corev1.Resource("pods/portforward"), "pod", errors.New("x")), apierrors.IsForbidden},
		"not found":   {apierrors.NewNotFound(corev1.Resource("pods"), "pod"), apierrors.IsNotFound},
		"bad request": {apierrors.NewBadRequest("pod does not run"), apierrors.IsBadRequest},
		"overloaded":  {apierrors.NewTooManyRequests("later", 1), apierrors.IsTooManyRequests},
	}
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			c := newCluster(t, listen(t, echo))
			c.refuseWebSocket, c.refuseSPDY = r.err, r.err
			_, err := newDialer(t, c).Dial(t.Context(), "ns", "pod", 1)
			if !r.is(err) || !strings.Contains(err.Error(), r.err.ErrStatus.Message) {
				t.Errorf("refused by %v", err)
			}
		})
	}
}

func TestWrongCredentialsAndPods(t *testing.T) {
	c := newCluster(t, listen(t, echo))
	if _, err := newDialer(t, c).Dial(t.Context(), "ns", "other", 1); !apierrors.IsNotFound(err) {
		t.Errorf("another pod: %v", err)
	}
	config := c.config()
	config.BearerToken = "wrong"
	d, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context(), "ns", "pod", 1); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
}

// A server before or behind the API server does not answer with a Status.
func TestPlainTextRefusal(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		http.StatusForbidden:           apierrors.IsForbidden,
		http.StatusNotFound:            apierrors.IsNotFound,
		http.StatusBadRequest:          apierrors.IsBadRequest,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
		http.StatusInternalServerError: apierrors.IsInternalError,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the balancer says no", code)
		}))
		defer server.Close()
		_, err := dialHost(t, t.Context(), server.URL)
		if !is(err) || !strings.Contains(err.Error(), "the balancer says no") {
			t.Errorf("refused with status %d by %v", code, err)
		}
	}
}

func dialHost(t *testing.T, ctx context.Context, host string) (net.Conn, error) {
	t.Helper()
	d, err := New(&rest.Config{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	return d.Dial(ctx, "ns", "pod", 1)
}

func TestNoServer(t *testing.T) {
	var opError *net.OpError
	var remote *RemoteError
	_, err := dialHost(t, t.Context(), "http://"+closedPort(t))
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &opError) || errors.As(err, &remote) {
		t.Errorf("no API server: %v", err)
	}
}

// The context ends a Dial wherever the server falls silent.
func TestContextEndsDial(t *testing.T) {
	// arrived receives a value when the server has reached the point where it
	// hangs.
	tests := map[string]func(t *testing.T, arrived chan<- struct{}) *rest.Config{
		"before TLS": func(t *testing.T, arrived chan<- struct{}) *rest.Config {
			return &rest.Config{Host: "https://" + silent(t, arrived)}
		},
		"before the answer to WebSocket": func(t *testing.T, arrived chan<- struct{}) *rest.Config {
			return hanging(t, arrived, func(*http.Request) bool { return true })
		},
		"before the answer to SPDY": func(t *testing.T, arrived chan<- struct{}) *rest.Config {
			return hanging(t, arrived, func(req *http.Request) bool { return req.Method == http.MethodPost })
		},
		"before the streams are taken": func(t *testing.T, arrived chan<- struct{}) *rest.Config {
			c := newCluster(t, listen(t, echo))
			c.ignoreStreams = arrived
			return c.config()
		},
		"in a proxy, whose socket is closed later": func(t *testing.T, arrived chan<- struct{}) *rest.Config {
			proxy := &url.URL{Scheme: "http", Host: silent(t, arrived)}
			return &rest.Config{Host: "https://192.0.2.1", Proxy: http.ProxyURL(proxy)}
		},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			arrived := make(chan struct{}, 8)
			d, err := New(start(t, arrived))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := d.Dial(ctx, "ns", "pod", 1)
				ended <- err
			}()
			select {
			case <-arrived:
			case <-time.After(patience):
				t.Fatal("the server was not reached")
			}
			cancel()
			if err := receive(t, ended); !errors.Is(err, context.Canceled) {
				t.Errorf("ended by %v", err)
			}
		})
	}
}

// silent accepts connections and sends nothing.
func silent(t *testing.T, arrived chan<- struct{}) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
}

// hanging does not answer requests for which where is true.
func hanging(t *testing.T, arrived chan<- struct{}, where func(*http.Request) bool) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if where(req) {
			arrived <- struct{}{}
			<-req.Context().Done()
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func TestContextHasNoFurtherEffect(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		conn, err := newDialer(t, c).Dial(ctx, "ns", "pod", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		cancel()
		for range 100 {
			ping(t, conn, "still here")
		}
	})
}

// A pod that speaks first may do so before the node has answered for both streams.
func TestPodThatSpeaksFirst(t *testing.T) {
	flood := func(conn net.Conn) {
		for _, err := conn.Write(make([]byte, chunk)); err == nil; {
			_, err = conn.Write(make([]byte, chunk))
		}
	}
	eachProtocol(t, flood, func(t *testing.T, c *cluster) {
		reply := make(chan struct{})
		c.errorReply = reply
		conn := dial(t, c)
		close(reply)
		if _, err := io.CopyN(io.Discard, conn, 4<<20); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrentDials(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		d := newDialer(t, c)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				conn, err := d.Dial(t.Context(), "ns", "pod", 1)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				ping(t, conn, "hello")
			})
		}
		wg.Wait()
	})
}

// Both protocols work through an HTTP proxy, also if the proxy is reached over TLS.
func TestProxies(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			eachProtocol(t, echo, func(t *testing.T, c *cluster) {
				var connects atomic.Int64
				proxy := httptest.NewUnstartedServer(connectProxy(&connects))
				if scheme == "https" {
					proxy.TLS = c.server.TLS.Clone()
					proxy.StartTLS()
				} else {
					proxy.Start()
				}
				defer proxy.Close()
				config := c.config()
				u, err := url.Parse(proxy.URL)
				if err != nil {
					t.Fatal(err)
				}
				config.Proxy = http.ProxyURL(u)
				d, err := New(config)
				if err != nil {
					t.Fatal(err)
				}
				conn, err := d.Dial(t.Context(), "ns", "pod", 1)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				ping(t, conn, "hello")
				if connects.Load() == 0 {
					t.Error("the proxy was not asked")
				}
			})
		})
	}
}

func connectProxy(connects *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		connects.Add(1)
		server, err := net.Dial("tcp", req.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			defer func() { _ = server.Close() }()
			_, _ = io.Copy(server, buffered)
		}()
		defer func() { _ = client.Close() }()
		_, _ = io.Copy(client, server)
	})
}

func TestConfigIsNotChanged(t *testing.T) {
	c := newCluster(t, listen(t, echo))
	config, before := c.config(), c.config()
	config.NextProtos, before.NextProtos = []string{"h2"}, []string{"h2"}
	d, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(t.Context(), "ns", "pod", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if diff := cmp.Diff(before, config, cmpopts.IgnoreUnexported(rest.Config{}, rest.TLSClientConfig{})); diff != "" {
		t.Errorf("the config has changed: %s", diff)
	}
}

func TestInvalidNamesAndPorts(t *testing.T) {
	d, err := New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		namespace, pod string
		port           int
	}{
		{"", "pod", 1},
		{"ns", "", 1},
		{"..", "pod", 1},
		{"ns", "a/b", 1},
		{"ns", "pod", 0},
		{"ns", "pod", 65536},
		{"ns", "pod", -1},
	} {
		if _, err := d.Dial(t.Context(), bad.namespace, bad.pod, bad.port); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%+v was tried: %v", bad, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"address":     {Host: "://"},
		"TLS":         {Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x"), Insecure: true}},
		"credentials": {Host: "https://x", Username: "u", Password: "p", BearerToken: "t"},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("bad %s are taken", name)
		}
	}
}
