package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What a host sends is what a client gets: nothing is made up, followed or unpacked.
func TestAnswersPassAsTheyAre(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		fmt.Fprint(z, strings.Repeat("text ", 1000))
		z.Close()
		host := newWitness(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/packed":
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(packed.Bytes())
			case "/bare":
				w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
				fmt.Fprint(w, "<html>")
			case "/redirect":
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			case "/unchanged":
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(http.StatusNotModified)
			default:
				w.Header().Set("Content-Length", "12345")
			}
		})
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		client := o.client(t, http2)
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer, body := do(t, client, get(t, "https://"+theHost+"/packed", "Accept-Encoding", "gzip"))
		if body != packed.String() || answer.Header.Get("Content-Encoding") != "gzip" || (<-host.requests).Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("%d bytes with %v", len(body), answer.Header)
		}
		if answer, _ := do(t, client, get(t, "https://"+theHost+"/bare")); answer.Header["Content-Type"] != nil || answer.Header["Date"] != nil {
			t.Errorf("bare: %v", answer.Header)
		}
		if answer, _ := do(t, client, get(t, "https://"+theHost+"/redirect")); answer.StatusCode != 302 || answer.Header.Get("Location") != "/elsewhere" {
			t.Errorf("redirect: %s %v", answer.Status, answer.Header)
		}
		if answer, _ := do(t, client, get(t, "https://"+theHost+"/unchanged")); answer.StatusCode != 304 || answer.Header.Get("Etag") != `"x"` {
			t.Errorf("unchanged: %s %v", answer.Status, answer.Header)
		}
		if answer, _ := do(t, client, request(t, "HEAD", "https://"+theHost, nil)); answer.ContentLength != 12345 {
			t.Errorf("HEAD: %v", answer.Header)
		}
	})
}

func TestTrailersPassBothWays(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set(http.TrailerPrefix+"X-Back", r.Trailer.Get("X-There"))
			fmt.Fprint(w, "body")
		}))
		body, send := io.Pipe()
		r := request(t, "POST", "https://"+theHost, body)
		r.Trailer = http.Header{"X-There": nil}
		go func() {
			fmt.Fprint(send, "body")
			r.Trailer.Set("X-There", "there")
			send.Close()
		}()
		if answer, _ := do(t, o.client(t, http2), r); answer.Trailer.Get("X-Back") != "there" {
			t.Errorf("trailers %v", answer.Trailer)
		}
	})
}

// A client that asks first sends no body to a host that refuses it.
func TestHostIsAskedBeforeTheBodyIsSent(t *testing.T) {
	o := newOpened(t, theSecret(t))
	asked := make(chan error, 1)
	o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+theValue {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, err := io.Copy(w, r.Body)
		asked <- err
	}))
	send := func(token string) string {
		conn := o.tunnel(t, theHost, "http/1.1")
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\nExpect: 100-continue\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", theHost, token)
		r := bufio.NewReader(conn)
		line, _ := r.ReadString('\n')
		for body := "body"; strings.Contains(line, " 100 "); body = "" { // more than one is no other answer
			r.ReadString('\n')
			fmt.Fprint(conn, body)
			line, _ = r.ReadString('\n')
		}
		return line
	}
	if got := send("wrong"); !strings.Contains(got, "401") {
		t.Error(got)
	}
	if got := send(o.placeholder("TOKEN")); !strings.Contains(got, "200") {
		t.Error(got)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

func TestHostMayAnswerWhileItReads(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			line := make([]byte, 5)
			for {
				if _, err := io.ReadFull(r.Body, line); err != nil {
					return
				}
				w.Write(line)
				http.NewResponseController(w).Flush()
			}
		}))
		body, send := io.Pipe()
		go fmt.Fprint(send, "ping\n")
		answer, err := o.client(t, http2).Do(request(t, "POST", "https://"+theHost, body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got := make([]byte, 5)
		for range 3 {
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != "ping\n" {
				t.Fatalf("%q, %v", got, err)
			}
			go fmt.Fprint(send, "ping\n")
		}
		send.Close()
	})
}

func TestWebSocketPasses(t *testing.T) {
	o := newOpened(t, theSecret(t))
	o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+theValue {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, text, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, text) != nil {
				return
			}
		}
	}))
	dialer := websocket.Dialer{Proxy: http.ProxyURL(o.proxy), TLSClientConfig: &tls.Config{RootCAs: trusting(o.ca)}}
	conn, _, err := dialer.DialContext(t.Context(), "wss://"+theHost, http.Header{"Authorization": {"Bearer " + o.placeholder("TOKEN")}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sent := range []string{"hello", strings.Repeat("x", 300_000), "without a line"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(sent)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.ReadMessage(); err != nil || string(got) != sent {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// After an upgrade to another protocol nobody would look at what is said, by HTTP/2 for one.
func TestOtherUpgradesAreLeftOut(t *testing.T) {
	o := newOpened(t, theSecret(t))
	host := newWitness(nil)
	o.host(t, theHost, host)
	for _, to := range []string{"h2c", "H2C", "TLS/1.0", "websocket, h2c", "h2c, websocket", "spdy/3.1"} {
		conn := o.tunnel(t, theHost, "http/1.1")
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", theHost, to)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", to, answer, err)
		}
		if got := (<-host.requests).Header; got["Upgrade"] != nil || got["Connection"] != nil || got["Http2-Settings"] != nil {
			t.Errorf("%s: the host got %v", to, got)
		}
	}
}

// echo is a method of gRPC that answers each message with the same, and ends with a status.
var echo = grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if token := md.Get("authorization"); len(token) != 1 || token[0] != "Bearer "+theValue {
		return status.Error(codes.Unauthenticated, "who is it?")
	}
	for {
		m := &wrapperspb.StringValue{}
		if err := stream.RecvMsg(m); err == io.EOF {
			return status.Error(codes.DataLoss, "the end")
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}}

func TestGRPCPasses(t *testing.T) {
	o := newOpened(t, theSecret(t))
	cert, err := o.world.Leaf(theHost)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{*cert}})))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Test", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{echo}}, nil)
	go server.Serve(l)
	defer server.Stop()
	o.is(theHost+":443", l.Addr().String())
	conn, err := grpc.NewClient("passthrough:///"+theHost+":443", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: trusting(o.ca)})),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return o.tunnel(t, theHost).NetConn(), nil }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+o.placeholder("TOKEN"))
	stream, err := conn.NewStream(ctx, &echo, "/test.Test/Echo")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", strings.Repeat("x", 1<<20)} {
		got := &wrapperspb.StringValue{}
		if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(got); err != nil || got.Value != text {
			t.Fatalf("%d bytes, %v", len(got.Value), err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&wrapperspb.StringValue{}); status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), "the end") {
		t.Errorf("it ended with %v", err)
	}
}

func TestLargeBodiesPassInBoundedMemory(t *testing.T) {
	const size = 64 << 20
	both(t, func(t *testing.T, http2 bool) {
		var peak uint64
		look := func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
		sum := func(r io.Reader, name string) [sha256.Size]byte {
			h := sha256.New()
			for n := 0; ; n++ {
				m, err := io.CopyN(h, r, 1<<20)
				if n%16 == 0 && name == "client" {
					look()
				}
				if err == io.EOF && m == 0 {
					break
				}
				if err != nil && err != io.EOF {
					t.Errorf("%s: %v", name, err)
					break
				}
			}
			return [sha256.Size]byte(h.Sum(nil))
		}
		got := make(chan [sha256.Size]byte, 1)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- sum(r.Body, "host")
			w.Header().Set("Content-Type", "text/plain") // which is searched
			io.CopyN(w, zeros{}, size)
		}))
		want := sum(io.LimitReader(zeros{}, size), "want")
		r := request(t, "POST", "https://"+theHost, io.LimitReader(zeros{}, size), "Authorization", o.placeholder("TOKEN"))
		look()
		before := peak
		client := o.client(t, http2)
		client.Timeout = 0 // so much takes longer than hung on a busy machine
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if back := sum(answer.Body, "client"); back != want || <-got != want {
			t.Error("a body changed on its way")
		}
		if peak > before+48<<20 {
			t.Errorf("it took %d MiB", (peak-before)>>20)
		}
	})
}

// A cut is an error, and never the end of a shorter answer.
func TestCutAnswerIsAnError(t *testing.T) {
	o := newOpened(t, theSecret(t))
	cut := make(chan struct{})
	o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the beginning")
		http.NewResponseController(w).Flush()
		<-cut
		panic(http.ErrAbortHandler)
	}))
	for name, ask := range map[string]func() (io.Reader, error){
		"HTTP/1": func() (io.Reader, error) { return bodyOf(o.client(t, false).Get("https://" + theHost)) },
		"HTTP/2": func() (io.Reader, error) { return bodyOf(o.client(t, true).Get("https://" + theHost)) },
		"HTTP/1.0": func() (io.Reader, error) {
			conn := o.tunnel(t, theHost, "http/1.1")
			fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", theHost)
			return conn, nil
		},
	} {
		r, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		for begun := ""; !strings.Contains(begun, "beginning"); {
			piece := make([]byte, 1)
			if _, err := r.Read(piece); err != nil {
				t.Fatal(err)
			}
			begun += string(piece)
		}
		cut <- struct{}{}
		if rest, err := io.ReadAll(r); err == nil {
			t.Errorf("%s: after the cut came %q and an end", name, rest)
		}
	}
}

func bodyOf(answer *http.Response, err error) (io.Reader, error) {
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}
