package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// grpcServer echoes, and says what metadata it gets.
type grpcServer struct {
	testgrpc.UnimplementedTestServiceServer
	left chan bool
}

func (s *grpcServer) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if in.ResponseStatus != nil {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("own-trailer-bin", "\x00\xff"))
		return nil, status.Error(codes.Code(in.ResponseStatus.Code), in.ResponseStatus.Message)
	}
	got, _ := metadata.FromIncomingContext(ctx)
	for _, name := range []string{"authorization", "x-sandbox-token", "x-sandbox-id"} {
		if got[name] != nil {
			return nil, status.Errorf(codes.Internal, "the server sees %s", name)
		}
	}
	return &testgrpc.SimpleResponse{Payload: in.Payload, Username: strings.Join(got["own"], " ")}, nil
}

func (s *grpcServer) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	for {
		in, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.left <- true
				return err
			}
			return nil
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

func TestCallsOfGRPCReachAServer(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, handler := grpc.NewServer(), &grpcServer{left: make(chan bool, 1)}
	testgrpc.RegisterTestServiceServer(server, handler)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	host := port + "-web--acme.sandboxes.test"

	for name, test := range map[string]struct{ authority, metadata []string }{
		"host":   {[]string{host}, []string{"authorization", "Bearer a", "own", "1"}},
		"header": {nil, []string{"x-sandbox-id", "web", "x-sandbox-port", port, "x-sandbox-token", "a", "own", "1"}},
	} {
		conn, err := grpc.NewClient(strings.TrimPrefix(d.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(strings.Join(test.authority, "")))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client, ctx := testgrpc.NewTestServiceClient(conn), metadata.AppendToOutgoingContext(t.Context(), test.metadata...)
		payload := &testgrpc.Payload{Body: bytes.Repeat([]byte("x"), 1<<20)}
		out, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: payload})
		if err != nil || !bytes.Equal(out.GetPayload().GetBody(), payload.Body) || out.GetUsername() != "1" {
			t.Fatalf("%s: a call: %d bytes, own %q: %v", name, len(out.GetPayload().GetBody()), out.GetUsername(), err)
		}
		var trailer metadata.MD
		_, err = client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.Aborted), Message: "ünd"}}, grpc.Trailer(&trailer))
		if s := status.Convert(err); s.Code() != codes.Aborted || s.Message() != "ünd" || strings.Join(trailer["own-trailer-bin"], "") != "\x00\xff" {
			t.Errorf("%s: a status: %v %v", name, err, trailer)
		}
		duplex(t, client, ctx)
		streaming, leave := context.WithCancel(ctx)
		stream, err := client.FullDuplexCall(streaming)
		if err == nil {
			err = stream.Send(&testgrpc.StreamingOutputCallRequest{})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		leave()
		await(t, handler.left)
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(d.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := testgrpc.NewTestServiceClient(conn).EmptyCall(t.Context(), &testgrpc.Empty{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

// duplex takes turns with the server.
func duplex(t *testing.T, client testgrpc.TestServiceClient, ctx context.Context) {
	t.Helper()
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: []byte(text)}}); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err != nil || string(out.GetPayload().GetBody()) != text {
			t.Fatalf("sent %s, got %s: %v", text, out.GetPayload().GetBody(), err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("the stream ends with %v", err)
	}
}
