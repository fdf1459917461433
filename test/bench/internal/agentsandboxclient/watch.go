package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// watch calls watcher.v1.FileWatcherService, which this version of the module has no code for: its messages
// are the unknown fields of an empty one.
func (w *walk) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &emptypb.Empty{}
	in.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "."))
	stream, err := w.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/watcher.v1.FileWatcherService/WatchDir")
	if err == nil {
		err = stream.SendMsg(proto.Message(in))
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		_, err = stream.Header() // which comes when it watches
	}
	if err != nil {
		return err
	}
	if err := w.sandbox.Write(ctx, "watched", []byte("x")); err != nil {
		return err
	}
	for {
		var out emptypb.Empty
		if err := stream.RecvMsg(&out); err != nil {
			return fmt.Errorf("WatchDir: %w", err)
		}
		if event := string(out.ProtoReflect().GetUnknown()); event == "\x08\x01\x12\x07watched" { // CREATE, and the path
			works("FileWatcherService.WatchDir")
			return nil
		}
	}
}
