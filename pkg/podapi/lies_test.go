//go:build !race

package podapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// A lie is an answer that no agent gives which keeps the contract. Its name begins with
// the call that gets it (liarCalls).
type lie struct {
	answer answer
	want   error // nil for ErrProtocol
}

var (
	long  = strings.Repeat("x", 3<<20)
	ugly  = "v1\x1b[31m\n"
	first = header(100)
)

// lies are told to the calls of all RPCs. Each has to end its call, with an error of a
// class.
var lies = map[string]lie{
	"Agent/Info: long version":          {answer: info(func(i *pb.InfoResponse) { i.Version = long })},
	"Agent/Info: version for terminals": {answer: info(func(i *pb.InfoResponse) { i.Version = ugly })},
	"Agent/Info: boot id for terminals": {answer: info(func(i *pb.InfoResponse) { i.BootId = ugly })},
	"Agent/Info: system for terminals":  {answer: info(func(i *pb.InfoResponse) { i.Os = ugly })},
	"Agent/Info: long workdir":          {answer: info(func(i *pb.InfoResponse) { i.Workdir = []byte(long) })},
	"Agent/Info: NUL in the workdir":    {answer: info(func(i *pb.InfoResponse) { i.Workdir = []byte("/w\x00") })},
	"Agent/Info: relative workdir":      {answer: info(func(i *pb.InfoResponse) { i.Workdir = []byte("@evil.example/x") })},
	"Agent/Info: unclean workdir":       {answer: info(func(i *pb.InfoResponse) { i.Workdir = []byte("/w/../x") })},
	"Agent/Info: no workdir":            {answer: info(func(i *pb.InfoResponse) { i.Workdir = nil })},
	"Agent/Info: negative idle time":    {answer: info(func(i *pb.InfoResponse) { i.Idle = -1 })},
	"Agent/Info: end before 1970":       {answer: info(func(i *pb.InfoResponse) { i.Expires = math.MinInt64 })},
	"Agent/Info: many capabilities":     {answer: parts(2_000_000, 11)},
	"Agent/Info: many confinements":     {answer: parts(1_000_000, 18)},
	"Agent/Info: many protected paths":  {answer: parts(2_000_000, 15)},
	"Agent/Info: some protected paths":  {answer: parts(5_000, 15)},
	"Agent/Info: two answers":           {answer: endless(honestInfo())},
	"Agent/Info: other version":         {answer: info(func(i *pb.InfoResponse) { i.ProtocolMajor = 1 << 31 }), want: podapi.ErrVersion},
	"Agent/Info: no answer":             {answer: once()},
	"Agent/Info: no message":            {answer: func(ctx context.Context, send func([]byte) error) error { return send([]byte("\xff\xff\xff")) }},
	"Agent/Info: larger than a message": {answer: func(ctx context.Context, send func([]byte) error) error { return send(make([]byte, 5<<20)) }, want: podapi.ErrTooLarge},
	"Agent/Info: long error":            {answer: refusal(codes.Unknown, long)},
	"Agent/Info: error with details":    {answer: refusal(codes.NotFound, "x", &pb.Error{Op: "\x1b", Message: strings.Repeat("x", 20<<10)}), want: errAny},
	"Agent/Info: unknown code":          {answer: refusal(codes.Code(99), "x")},

	"Agent/Configure: no answer":            {answer: once()},
	"Agent/Stats: no answer":                {answer: once()},
	"Agent/Stats: negative memory":          {answer: once(&pb.StatsResponse{Memory: new(int64(-1))})},
	"Agent/Stats: negative processor time":  {answer: once(&pb.StatsResponse{Cpu: new(int64(math.MinInt64))})},
	"Agent/Stats: negative limit":           {answer: once(&pb.StatsResponse{CpuLimit: new(int64(-1))})},
	"Agent/Stats: negative disk":            {answer: once(&pb.StatsResponse{DiskAvailable: new(int64(-1))})},
	"Agent/Stats: time before 1970":         {answer: once(&pb.StatsResponse{Time: -1})},
	"Agent/Stats: long error":               {answer: refusal(codes.Unknown, long)},
	"Files/Mkdir: no answer":                {answer: once()},
	"Files/Remove: no answer":               {answer: once()},
	"Files/Rename: no answer":               {answer: once()},
	"Files/Copy: no answer":                 {answer: once()},
	"Files/Chmod: no answer":                {answer: once()},
	"Files/Symlink: no answer":              {answer: once()},
	"Processes/Signal: no answer":           {answer: once()},
	"Processes/Forget: no answer":           {answer: once()},
	"Processes/Forget: endless":             {answer: endless(&pb.ForgetResponse{})},
	"Processes/KillStrays: negative number": {answer: once(&pb.KillStraysResponse{Count: -1})},

	"Files/Stat: empty":              {answer: once(&pb.StatResponse{})},
	"Files/Stat: negative size":      {answer: stated(&pb.Attr{Size: -1})},
	"Files/Stat: etag for terminals": {answer: stated(&pb.Attr{Etag: ugly})},
	"Files/Stat: long target":        {answer: stated(&pb.Attr{Target: []byte(long)})},
	"Files/Stat: NUL in the path":    {answer: stated(&pb.Attr{Path: []byte("\x00")})},

	"Files/List: endless":              {answer: endless(listed(&pb.Attr{Path: []byte("d/f")})), want: errTooLarge},
	"Files/List: endless long names":   {answer: endless(listed(&pb.Attr{Path: []byte("d/" + strings.Repeat("x", 60<<10))})), want: errTooLarge},
	"Files/List FS: endless":           {answer: endless(listed(&pb.Attr{Path: []byte("d/f")})), want: errTooLarge},
	"Files/List: endless empty":        {answer: endless(listed())},
	"Files/List: endless unreadable":   {answer: endless(&pb.ListResponse{Kind: &pb.ListResponse_Unreadable{Unreadable: &pb.Error{}}})},
	"Files/List: entry elsewhere":      {answer: once(listed(&pb.Attr{Path: []byte("/etc/passwd")}))},
	"Files/List: entry above":          {answer: once(listed(&pb.Attr{Path: []byte("d/..")}))},
	"Files/List: the directory itself": {answer: once(listed(&pb.Attr{Path: []byte("d/.")}))},
	"Files/List: entry below":          {answer: once(listed(&pb.Attr{Path: []byte("d/a/b")}))},
	"Files/List: other count":          {answer: once(&pb.ListResponse{Kind: &pb.ListResponse_End{End: &pb.ListEnd{Count: 3}}})},
	"Files/List: negative skipped":     {answer: once(&pb.ListResponse{Kind: &pb.ListResponse_End{End: &pb.ListEnd{Skipped: -3}}})},
	"Files/List: many empty entries":   {answer: parts(2_000_000, 1, 1)},
	"Files/List: cut":                  {answer: once(listed(&pb.Attr{Path: []byte("d/f")})), want: podapi.ErrCut},

	"Files/Read: beyond the length":       {answer: endless(first, data(50))},
	"Files/Read: header twice":            {answer: once(first, first)},
	"Files/Read: endless headers":         {answer: endless(first)},
	"Files/Read: no header":               {answer: once(data(1))},
	"Files/Read: end without header":      {answer: once(readEnd("", nil))},
	"Files/Read: endless empty":           {answer: endless(first, data(0))},
	"Files/Read: endless unknown":         {answer: endless(first, &pb.ReadResponse{})},
	"Files/Read: no attributes":           {answer: once(&pb.ReadResponse{Kind: &pb.ReadResponse_Header{}})},
	"Files/Read: other sum":               {answer: once(first, data(10), readEnd("other", nil)), want: fsops.ErrChecksum},
	"Files/Read: end without sum":         {answer: once(first, data(10), &pb.ReadResponse{Kind: &pb.ReadResponse_End{}}), want: fsops.ErrChecksum},
	"Files/Read: cut":                     {answer: once(first, data(10)), want: podapi.ErrCut},
	"Files/Read all: more than the size":  {answer: endless(first, data(1<<20))},
	"Files/Read all: huge size":           {answer: once(header(1<<59), data(10)), want: podapi.ErrCut},
	"Files/Read all: large size":          {answer: once(header(1<<29), data(10)), want: podapi.ErrCut},
	"Files/Read all: negative size":       {answer: once(header(-1))},
	"Files/Read open: more than the size": {answer: endless(first, data(1<<20))},
	"Files/Read open: header twice":       {answer: once(first, first)},
	"Files/Read open: endless empty":      {answer: endless(first, data(0))},
	"Files/Read lines: too long":          {answer: endless(first, data(1<<20))},
	"Files/Read lines: too many":          {answer: linesOf(strings.Repeat("\n", 11), &pb.LineResult{First: 1, Count: 11, Total: 11})},
	"Files/Read lines: other number":      {answer: linesOf("a\nb\n", &pb.LineResult{First: 1, Count: 1, Total: 2})},
	"Files/Read lines: other lines":       {answer: linesOf("a\n", &pb.LineResult{First: 5, Count: 1, Total: 9})},
	"Files/Read lines: fewer in all":      {answer: linesOf("a\nb\n", &pb.LineResult{First: 1, Count: 2, Total: 1})},
	"Files/Read lines: negative total":    {answer: linesOf("a\n", &pb.LineResult{First: 1, Count: 1, Total: -2})},
	"Files/Read lines: no result":         {answer: linesOf("a\n", nil)},

	"Files/Write: no result":      {answer: thenHang(&pb.WriteReply{Kind: &pb.WriteReply_End{}})},
	"Files/Write: bad attributes": {answer: thenHang(&pb.WriteReply{Kind: &pb.WriteReply_End{End: &pb.WriteResponse{Attr: &pb.Attr{Size: -1}}}})},
	"Files/Write: endless acks":   {answer: endless(&pb.WriteReply{Kind: &pb.WriteReply_Ack{Ack: &pb.UploadAck{Limit: math.MaxInt64}}})},
	"Files/Write: endless empty":  {answer: endless(&pb.WriteReply{})},
	"Files/Write: negative ack":   {answer: endless(&pb.WriteReply{Kind: &pb.WriteReply_Ack{Ack: &pb.UploadAck{Limit: -1}}})},
	"Files/Write: cut":            {answer: once(), want: podapi.ErrCut},

	"Files/Edit: empty":            {answer: once(&pb.EditResponse{})},
	"Files/Edit: two for one":      {answer: edited(&pb.EditResponse{Occurrences: []int64{1, 1}})},
	"Files/Edit: negative":         {answer: edited(&pb.EditResponse{Occurrences: []int64{-1}})},
	"Files/Edit: none":             {answer: edited(&pb.EditResponse{Occurrences: []int64{0}})},
	"Files/Edit: all for one":      {answer: edited(&pb.EditResponse{Occurrences: []int64{2}})},
	"Files/Edit: long diff":        {answer: edited(&pb.EditResponse{Occurrences: []int64{1}, Diff: []byte(long)})},
	"Files/Edit: no result":        {answer: once(&pb.EditResponse{Occurrences: []int64{1}})},
	"Files/Edit: many occurrences": {answer: edited(&pb.EditResponse{Occurrences: make([]int64, 4_000_000)})},
	"Files/Edit: error of numbers": {answer: refusal(codes.FailedPrecondition, "x", &pb.Error{Edit: &pb.EditDetail{Index: math.MinInt64, Count: math.MaxInt64}}), want: errAny},

	"Files/Glob: beyond the limit":   {answer: endless(globbed("f"))},
	"Files/Glob: long path":          {answer: once(globbed(long))},
	"Files/Glob: endless empty":      {answer: endless(globbed())},
	"Files/Glob: endless unreadable": {answer: endless(&pb.GlobResponse{Kind: &pb.GlobResponse_Unreadable{Unreadable: &pb.Error{Message: strings.Repeat("x", 2000)}}})},
	"Files/Glob: other count":        {answer: once(globbed("f"), &pb.GlobResponse{Kind: &pb.GlobResponse_End{End: &pb.GlobEnd{Count: 2}}})},
	"Files/Glob: negative count":     {answer: once(&pb.GlobResponse{Kind: &pb.GlobResponse_End{End: &pb.GlobEnd{Count: -2}}})},
	"Files/Glob: many empty matches": {answer: parts(2_000_000, 1, 1)},

	"Files/Grep: beyond the limit":   {answer: endless(found(match()))},
	"Files/Grep: endless context":    {answer: endless(found(&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_CONTEXT, Path: []byte("f"), Line: 1}))},
	"Files/Grep: endless files":      {answer: endless(found(&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_FILE, Path: []byte("f")}))},
	"Files/Grep: endless errors":     {answer: endless(found(slices.Repeat([]*pb.GrepResult{{Kind: pb.GrepKind_GREP_KIND_FILE_ERROR}}, 1000)...))},
	"Files/Grep: endless binary":     {answer: endless(found(slices.Repeat([]*pb.GrepResult{{Kind: pb.GrepKind_GREP_KIND_BINARY}}, 1000)...))},
	"Files/Grep: endless unknown":    {answer: endless(found(slices.Repeat([]*pb.GrepResult{{Kind: 99}}, 1000)...))},
	"Files/Grep: endless empty":      {answer: endless(found())},
	"Files/Grep: long line":          {answer: once(found(&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_MATCH, Line: 1, Text: []byte(long)}))},
	"Files/Grep: line of no number":  {answer: once(found(&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_MATCH}))},
	"Files/Grep: span beyond":        {answer: once(found(spanning(0, 2)))},
	"Files/Grep: span before":        {answer: once(found(spanning(-1, 1)))},
	"Files/Grep: span backwards":     {answer: once(found(spanning(1, 0)))},
	"Files/Grep: half a span":        {answer: once(found(spanning(0)))},
	"Files/Grep: negative matches":   {answer: once(&pb.GrepResponse{Kind: &pb.GrepResponse_End{End: &pb.GrepEnd{Matches: -1}}})},
	"Files/Grep: many empty results": {answer: parts(2_000_000, 1, 1)},

	"Files/Watch: endless empty":     {answer: endless(&pb.WatchResponse{Kind: &pb.WatchResponse_Batch{Batch: &pb.WatchBatch{}}})},
	"Files/Watch: endless ready":     {answer: endless(&pb.WatchResponse{Kind: &pb.WatchResponse_Batch{Batch: &pb.WatchBatch{Events: []*pb.WatchEvent{{Op: pb.WatchOp_WATCH_OP_READY}}}}})},
	"Files/Watch: long path":         {answer: once(&pb.WatchResponse{Kind: &pb.WatchResponse_Batch{Batch: &pb.WatchBatch{Events: []*pb.WatchEvent{{Op: pb.WatchOp_WATCH_OP_WRITE, Path: []byte(long)}}}}})},
	"Files/Watch: many empty events": {answer: parts(2_000_000, 1, 1)},

	"Files/Push: endless acks":     {answer: endless(&pb.PushReply{Kind: &pb.PushReply_Ack{Ack: &pb.UploadAck{Limit: 1}}})},
	"Files/Push: negative numbers": {answer: thenHang(&pb.PushReply{Kind: &pb.PushReply_End{End: &pb.PushResponse{Stats: &pb.TreeStats{Bytes: -1}}}})},
	"Files/Push: cut":              {answer: once(), want: podapi.ErrCut},
	"Files/Pull: endless file":     {answer: endless(tarred(tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: 0o644}), zeroed(1<<20)), want: errAny},
	"Files/Pull: huge file":        {answer: once(tarHead(tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 1 << 40}), zeroed(1<<20)), want: errTooLarge},
	"Files/Pull: large files":      {answer: endless(tarred(tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 1 << 20})), want: errTooLarge},
	"Files/Pull: endless entries":  {answer: endless(tarred(tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o777})), want: errTooLarge},
	"Files/Pull: endless comments": {answer: endless(tarred(tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}})), want: errTooLarge},
	"Files/Pull: endless padding":  {answer: endless(zeroed(1 << 20)), want: fsops.ErrBadArchive},
	"Files/Pull: endless empty":    {answer: endless(zeroed(0))},
	"Files/Pull: entry above":      {answer: thenHang(tarred(tar.Header{Name: "../evil", Typeflag: tar.TypeReg})), want: fsops.ErrUnsafeArchive},
	"Files/Pull: absolute entry":   {answer: thenHang(tarred(tar.Header{Name: "/tmp/../evil", Typeflag: tar.TypeReg})), want: fsops.ErrUnsafeArchive},
	"Files/Pull: link above":       {answer: thenHang(tarred(tar.Header{Name: "l", Linkname: "..", Typeflag: tar.TypeSymlink}, tar.Header{Name: "l/evil", Typeflag: tar.TypeReg})), want: fsops.ErrUnsafeArchive},
	"Files/Pull: hard link above":  {answer: thenHang(tarred(tar.Header{Name: "l", Linkname: "../secret", Typeflag: tar.TypeLink})), want: fsops.ErrUnsafeArchive},
	"Files/Pull: negative numbers": {answer: once(zeroed(1024), &pb.PullResponse{Kind: &pb.PullResponse_End{End: &pb.PullEnd{Stats: &pb.TreeStats{Skipped: -1}}}})},
	"Files/Pull: other sum":        {answer: once(zeroed(1024), &pb.PullResponse{Kind: &pb.PullResponse_End{}}), want: fsops.ErrChecksum},
	"Files/Pull: no archive":       {answer: once(&pb.PullResponse{Kind: &pb.PullResponse_Data{Data: []byte(long)}}), want: errAny},

	"Processes/Exec: no start":              {answer: once(stdout(0, 0, "x"))},
	"Processes/Exec: other id":              {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: ugly, BootId: "boot"}}})},
	"Processes/Exec: other boot":            {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: liarExecID, BootId: "other"}}})},
	"Processes/Exec: negative pid":          {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: liarExecID, BootId: "boot", Pid: -1}}})},
	"Processes/Exec: input taken before":    {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: liarExecID, BootId: "boot", Stdin: -5}}})},
	"Processes/Exec: started twice":         {answer: once(started(), started())},
	"Processes/Exec: endless unknown":       {answer: endless(started(), &pb.ExecResponse{})},
	"Processes/Exec: endless empty output":  {answer: endless(started(), stdout(0, 0, ""))},
	"Processes/Exec: endless acks":          {answer: endless(started(), &pb.ExecResponse{Kind: &pb.ExecResponse_Stdin{Stdin: &pb.StdinAck{Offset: 1}}})},
	"Processes/Exec: negative ack":          {answer: once(started(), &pb.ExecResponse{Kind: &pb.ExecResponse_Stdin{Stdin: &pb.StdinAck{Offset: -1}}})},
	"Processes/Exec: highest ack":           {answer: once(started(), &pb.ExecResponse{Kind: &pb.ExecResponse_Stdin{Stdin: &pb.StdinAck{Offset: math.MaxInt64}}})},
	"Processes/Exec: gap":                   {answer: once(started(), stdout(5, 0, "x")), want: podapi.ErrCut},
	"Processes/Exec: output again":          {answer: once(started(), stdout(0, 0, "x"), stdout(0, 0, "x")), want: podapi.ErrCut},
	"Processes/Exec: negative omitted":      {answer: once(started(), stdout(0, 0, "xx"), stdout(1, -1, "x"))},
	"Processes/Exec: highest offset":        {answer: once(started(), stdout(math.MaxInt64, math.MaxInt64, "x"))},
	"Processes/Exec: detached unasked":      {answer: once(started(), &pb.ExecResponse{Kind: &pb.ExecResponse_Detached{}})},
	"Processes/Exec: no reason":             {answer: once(started(), exited(&pb.ExecExit{}))},
	"Processes/Exec: reason of clients":     {answer: once(started(), exited(&pb.ExecExit{Reason: pb.ExitReason_EXIT_REASON_AGENT_LOST}))},
	"Processes/Exec: code out of range":     {answer: once(started(), exited(&pb.ExecExit{Reason: 1, Code: 256}))},
	"Processes/Exec: negative code":         {answer: once(started(), exited(&pb.ExecExit{Reason: 1, Code: -1}))},
	"Processes/Exec: negative time":         {answer: once(started(), exited(&pb.ExecExit{Reason: 1, Wall: -1}))},
	"Processes/Exec: other length":          {answer: once(started(), exited(&pb.ExecExit{Reason: 1, Stdout: 1})), want: podapi.ErrCut},
	"Processes/Exec: cut":                   {answer: once(started()), want: podapi.ErrCut},
	"Processes/Exec attach: output":         {answer: endless(started(), stdout(0, 0, "x"))},
	"Processes/Exec attach: other id":       {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: "other", BootId: "boot"}}})},
	"Processes/Exec attach: boot id":        {answer: once(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: liarExecID, BootId: ugly}}})},
	"Processes/Exec attach: detached":       {answer: once(started(), &pb.ExecResponse{Kind: &pb.ExecResponse_Detached{}})},
	"Processes/List: endless":               {answer: endless(running(&pb.ProcessInfo{ExecId: liarExecID}))},
	"Processes/List: endless long commands": {answer: endless(running(&pb.ProcessInfo{ExecId: liarExecID, Script: make([]byte, 4096)}))},
	"Processes/List: endless arguments":     {answer: endless(running(&pb.ProcessInfo{ExecId: liarExecID, Argv: make([][]byte, 10_000)}))},
	"Processes/List: endless empty":         {answer: endless(&pb.ListProcessesResponse{})},
	"Processes/List: long command":          {answer: once(running(&pb.ProcessInfo{ExecId: liarExecID, Script: []byte(long)}))},
	"Processes/List: many empty arguments":  {answer: parts(2_000_000, 1, 3)},
	"Processes/List: exec id for terminals": {answer: once(running(&pb.ProcessInfo{ExecId: ugly}))},
	"Processes/List: negative numbers":      {answer: once(running(&pb.ProcessInfo{ExecId: liarExecID, Stdout: -1}))},
	"Processes/List: negative strays":       {answer: once(&pb.ListProcessesResponse{Kind: &pb.ListProcessesResponse_End{End: &pb.ListProcessesEnd{Strays: -1}}})},
	"Processes/List: start before 1970":     {answer: once(running(&pb.ProcessInfo{ExecId: liarExecID, Started: math.MinInt64}))},
	"Processes/List: end without a reason":  {answer: once(running(&pb.ProcessInfo{ExecId: liarExecID, Exit: &pb.ExecExit{}}))},
	"Processes/List: other count":           {answer: once(&pb.ListProcessesResponse{Kind: &pb.ListProcessesResponse_End{End: &pb.ListProcessesEnd{Count: 1}}})},
	"Processes/List: cut":                   {answer: once(), want: podapi.ErrCut},

	"Git/Checkout: commit for terminals": {answer: once(&pb.CheckoutResponse{Commit: ugly})},
	"Git/Checkout: NUL in the ref":       {answer: once(&pb.CheckoutResponse{Ref: []byte("refs/\x00")})},
	"Git/Checkout: long reason":          {answer: once(&pb.CheckoutResponse{Kept: long})},
	"Git/Checkout: no answer":            {answer: once()},
	"Git/Checkout: long error":           {answer: refusal(codes.Unknown, long)},

	"Checkpoints/Create: no checkpoint":       {answer: once(&pb.CreateCheckpointResponse{})},
	"Checkpoints/Create: no id":               {answer: once(&pb.CreateCheckpointResponse{Checkpoint: &pb.Checkpoint{Id: ugly}})},
	"Checkpoints/Create: path outside":        {answer: once(&pb.CreateCheckpointResponse{Checkpoint: liarPoint, LeftOut: []*pb.LeftPath{{Path: []byte("../x")}}})},
	"Checkpoints/Create: long path":           {answer: once(&pb.CreateCheckpointResponse{Checkpoint: liarPoint, Moving: [][]byte{[]byte(long)}})},
	"Checkpoints/Create: negative numbers":    {answer: once(&pb.CreateCheckpointResponse{Checkpoint: liarPoint, MoreMoving: -1})},
	"Checkpoints/List: endless":               {answer: endless(&pb.ListCheckpointsResponse{Kind: &pb.ListCheckpointsResponse_Checkpoint{Checkpoint: liarPoint}})},
	"Checkpoints/List: endless empty":         {answer: endless(&pb.ListCheckpointsResponse{})},
	"Checkpoints/List: long name":             {answer: once(&pb.ListCheckpointsResponse{Kind: &pb.ListCheckpointsResponse_Checkpoint{Checkpoint: &pb.Checkpoint{Id: string(liarCheckpoint), Name: long}}})},
	"Checkpoints/List: other count":           {answer: once(&pb.ListCheckpointsResponse{Kind: &pb.ListCheckpointsResponse_End{End: &pb.ListCheckpointsEnd{Count: 1}}})},
	"Checkpoints/List: cut":                   {answer: once(), want: podapi.ErrCut},
	"Checkpoints/Remove: no answer":           {answer: once()},
	"Checkpoints/Diff: endless":               {answer: endless(differs(&pb.Difference{Path: []byte("x"), How: pb.DifferenceKind_DIFFERENCE_KIND_ADDED}))},
	"Checkpoints/Diff: endless of no kind":    {answer: endless(differs(&pb.Difference{}))},
	"Checkpoints/Diff: endless empty":         {answer: endless(&pb.DiffCheckpointsResponse{})},
	"Checkpoints/Diff: path outside":          {answer: once(differs(&pb.Difference{Path: []byte("/etc"), How: pb.DifferenceKind_DIFFERENCE_KIND_ADDED}))},
	"Checkpoints/Diff: cut":                   {answer: once(), want: podapi.ErrCut},
	"Checkpoints/Export: no manifest":         {answer: once(exportEnd)},
	"Checkpoints/Export: endless manifest":    {answer: endless(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Manifest{Manifest: &pb.CheckpointManifest{Data: make([]byte, 1<<16)}}})},
	"Checkpoints/Export: endless nothing":     {answer: endless(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Manifest{Manifest: &pb.CheckpointManifest{}}})},
	"Checkpoints/Export: objects first":       {answer: once(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Parts{Parts: &pb.CheckpointParts{Parts: []*pb.CheckpointPart{{Object: make([]byte, 32), Encoding: 1}}}}})},
	"Checkpoints/Export: the truth":           {answer: once(exportManifest, exportDir, exportFile, exportEnd), want: errNone},
	"Checkpoints/Export: another manifest":    {answer: once(manifestOf(liarManifest+" "), exportDir, exportFile, exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: two manifests":       {answer: once(exportManifest, exportManifest)},
	"Checkpoints/Export: half an object":      {answer: once(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) { p.Data = p.Data[:1] }), exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: no objects":          {answer: once(exportManifest, exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: one too few":         {answer: once(exportManifest, exportDir, exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: the file first":      {answer: once(exportManifest, exportFile, exportDir, exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: another content":     {answer: once(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) { p.Data = []byte("abd") }), exportEnd), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: another directory":   {answer: once(exportManifest, object(liarDir, func(p *pb.CheckpointPart) { p.Data[20]++ })), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: endless objects":     {answer: endless(exportManifest, exportDir, exportFile), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: endless object":      {answer: endless(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) { p.Size = 1 << 60 }), partsOf(&pb.CheckpointPart{Data: make([]byte, 1<<19)})), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: endless directory":   {answer: endless(exportManifest, object(liarDir, func(p *pb.CheckpointPart) { p.Size = 1 << 60 }), partsOf(&pb.CheckpointPart{Data: make([]byte, 1<<19)})), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: endless empty parts": {answer: endless(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) { p.Data = nil }), partsOf(&pb.CheckpointPart{})), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: a bomb": {answer: once(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) {
		p.Encoding, p.Data = pb.CheckpointEncoding_CHECKPOINT_ENCODING_S2, []byte("\xff\xff\x7f")
	})), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: a negative size":      {answer: once(exportManifest, exportDir, object(liarContent, func(p *pb.CheckpointPart) { p.Size = -1 })), want: checkpoint.ErrCorrupt},
	"Checkpoints/Export: a short hash":         {answer: once(exportManifest, object(liarDir, func(p *pb.CheckpointPart) { p.Object = p.Object[:5] }))},
	"Checkpoints/Export: no encoding":          {answer: once(exportManifest, object(liarDir, func(p *pb.CheckpointPart) { p.Encoding = 7 }))},
	"Checkpoints/Export: no parts":             {answer: once(exportManifest, partsOf())},
	"Checkpoints/Export copy: endless nothing": {answer: endless(&pb.ExportCheckpointResponse{}), want: podapi.ErrCut},
	"Checkpoints/Export copy: an end":          {answer: once(exportEnd), want: errCutOrProtocol},
	"Checkpoints/Import copy: another":         {answer: once(imported(&pb.ImportCheckpointEnd{Checkpoint: &pb.Checkpoint{Id: strings.Repeat("0", 64)}}))},
	"Checkpoints/Import copy: endless nothing": {answer: endless(&pb.ImportCheckpointResponse{}), want: podapi.ErrCut},
	"Checkpoints/Export: cut":                  {answer: once(exportManifest), want: podapi.ErrCut},
	"Checkpoints/Import: another":              {answer: once(&pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_End{End: &pb.ImportCheckpointEnd{Checkpoint: &pb.Checkpoint{Id: strings.Repeat("0", 64)}}}})},
	"Checkpoints/Import: no checkpoint":        {answer: once(&pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_End{End: &pb.ImportCheckpointEnd{}}})},
	"Checkpoints/Import: endless questions":    {answer: endless(&pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_Want{Want: &pb.CheckpointObjects{}}})},
	"Checkpoints/Import: negative numbers":     {answer: once(imported(&pb.ImportCheckpointEnd{Checkpoint: liarPoint, Objects: -1}))},
	"Checkpoints/Import: path outside":         {answer: once(imported(&pb.ImportCheckpointEnd{Checkpoint: liarPoint, Kept: []*pb.LeftPath{{Path: []byte("../x"), Why: "x"}}}))},
	"Checkpoints/Import: long reason":          {answer: once(imported(&pb.ImportCheckpointEnd{Checkpoint: liarPoint, Kept: []*pb.LeftPath{{Path: []byte("x"), Why: long}}}))},
	"Checkpoints/Import: endless nothing":      {answer: endless(&pb.ImportCheckpointResponse{})},
	"Checkpoints/Import: cut":                  {answer: once(), want: podapi.ErrCut},
	"Checkpoints/Restore: no checkpoint":       {answer: once(&pb.RestoreCheckpointResponse{})},
	"Checkpoints/Restore: long reason":         {answer: once(&pb.RestoreCheckpointResponse{Before: liarPoint, Kept: []*pb.LeftPath{{Path: []byte("x"), Why: long}}})},

	"Ports/Dial: not opened":       {answer: once(&pb.DialResponse{Kind: &pb.DialResponse_End{}})},
	"Ports/Dial: beyond the limit": {answer: endless(opened(), &pb.DialResponse{Kind: &pb.DialResponse_Data{Data: make([]byte, 1<<20)}})},
	"Ports/Dial: opened twice":     {answer: once(opened(), opened())},
	"Ports/Dial: after the end":    {answer: once(opened(), &pb.DialResponse{Kind: &pb.DialResponse_End{End: &pb.DialEnd{}}}, &pb.DialResponse{Kind: &pb.DialResponse_End{End: &pb.DialEnd{}}}), want: errNone},
	"Ports/Dial: unknown":          {answer: once(opened(), &pb.DialResponse{})},
	"Ports/Dial: cut":              {answer: once(opened()), want: podapi.ErrCut},

	"Ports/List: no answer":         {answer: once()},
	"Ports/List: no port":           {answer: ports(&pb.ListeningPort{})},
	"Ports/List: port too large":    {answer: ports(&pb.ListeningPort{Port: 65536})},
	"Ports/List: port twice":        {answer: ports(&pb.ListeningPort{Port: 80}, &pb.ListeningPort{Port: 80})},
	"Ports/List: out of order":      {answer: ports(&pb.ListeningPort{Port: 81}, &pb.ListeningPort{Port: 80})},
	"Ports/List: too many":          {answer: parts(1_000_000, 1)},
	"Ports/List: too many in order": {answer: ports(manyPorts(1001)...)},
	"Ports/List: many addresses":    {answer: parts(1_000_000, 1, 2)},
	"Ports/List: no address":        {answer: ports(&pb.ListeningPort{Port: 80, Addresses: []string{ugly}})},
	"Ports/List: zone for pages":    {answer: ports(&pb.ListeningPort{Port: 80, Addresses: []string{"fe80::1%<script>"}})},
	"Ports/List: negative process":  {answer: ports(&pb.ListeningPort{Port: 80, Pid: -1})},
	"Ports/List: long name":         {answer: ports(&pb.ListeningPort{Port: 80, Name: []byte(long)})},
	"Ports/List: no exec id":        {answer: ports(&pb.ListeningPort{Port: 80, ExecId: ugly})},
	"Ports/List: long error":        {answer: refusal(codes.Unknown, long)},

	"Egress/Carry: not opened":       {answer: once(&pb.DialResponse{Kind: &pb.DialResponse_End{}})},
	"Egress/Carry: beyond the limit": {answer: endless(opened(), &pb.DialResponse{Kind: &pb.DialResponse_Data{Data: make([]byte, 1<<20)}})},
	"Egress/Carry: cut":              {answer: once(opened()), want: podapi.ErrCut},
	"Egress/Serve: cut":              {answer: once(), want: podapi.ErrCut},
	"Egress/Serve: long error":       {answer: refusal(codes.Unknown, long)},
}

var (
	errAny      = errors.New("any error")      // of a class that the agent chooses
	errNone     = errors.New("no error")       // the call ended before the lie
	errTooLarge = errors.New("file too large") // EFBIG, for the sake of the platform
)

// ports is an answer with these ports.
func ports(list ...*pb.ListeningPort) answer { return once(&pb.ListPortsResponse{Ports: list}) }

func manyPorts(n int) (list []*pb.ListeningPort) {
	for i := range n {
		list = append(list, &pb.ListeningPort{Port: uint32(i + 1)})
	}
	return list
}

func info(change func(*pb.InfoResponse)) answer {
	i := honestInfo()
	change(i)
	return once(i)
}

func stated(a *pb.Attr) answer { return once(&pb.StatResponse{Attr: a}) }

func edited(r *pb.EditResponse) answer {
	r.Write = &pb.WriteResponse{Attr: &pb.Attr{}}
	return once(r)
}

func linesOf(text string, result *pb.LineResult) answer {
	return once(first, &pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: []byte(text)}}, readEnd(text, result))
}

func spanning(ends ...int64) *pb.GrepResult {
	m := match()
	m.Spans = ends
	return m
}

func opened() *pb.DialResponse {
	return &pb.DialResponse{Kind: &pb.DialResponse_Opened{Opened: &pb.DialOpened{Local: "127.0.0.1:1", Remote: ugly, Limit: math.MinInt64}}}
}

// tarHead is an archive up to the content of its entry.
func tarHead(h tar.Header) *pb.PullResponse {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		panic(err)
	}
	return &pb.PullResponse{Kind: &pb.PullResponse_Data{Data: b.Bytes()}}
}

// refusal is an error as an answer.
func refusal(code codes.Code, message string, details ...protoadapt.MessageV1) answer {
	return func(context.Context, func([]byte) error) error {
		st, err := status.New(code, message).WithDetails(details...)
		if err != nil {
			panic(err)
		}
		return st.Err()
	}
}

// victim is the environment variable that makes the test a client of the liar at this
// socket.
const victim = "PODAPI_TEST_LIAR"

// maxVictim is how much memory a client may take that is lied to.
const maxVictim = 256 << 20

func TestALyingAgentGetsNoMoreThanAnError(t *testing.T) {
	socket := os.Getenv(victim)
	if socket != "" {
		beLiedTo(t, socket)
		return
	}
	for name := range liarCalls {
		if !slices.ContainsFunc(lieNames(), func(lie string) bool { return strings.HasPrefix(lie, name+":") }) {
			t.Errorf("nobody lies to %s", name)
		}
	}
	l := newLiar(t, func(name string) answer { return lies[name].answer })
	// The client runs in a process of its own, so that its memory can be measured.
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	// Its collector knows of the bound, as in a container of this size; otherwise a busy
	// machine decides how late it comes.
	cmd.Env = append(os.Environ(), victim+"="+l.socket, fmt.Sprintf("GOMEMLIMIT=%d", maxVictim*3/4))
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if err != nil || strings.Contains(line, "MiB") {
			t.Log(strings.TrimSuffix(line, "\n"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func lieNames() []string {
	var names []string
	for name := range lies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// beLiedTo makes a call for each lie.
func beLiedTo(t *testing.T, socket string) {
	names, wants := lieNames(), map[string]error{}
	for name, lie := range lies {
		wants[name] = lie.want
	}
	lies = nil // they are large, and the other process tells them
	c := liarClient(t, socket)
	var most int64
	for _, name := range names {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { hear(t, c, name, wants[name]) })
		most = max(most, peak(t))
	}
	t.Logf("the client took up to %d MiB", most>>20)
}

// hear makes the call that gets a lie.
func hear(t *testing.T, c *podapi.Client, name string, want error) {
	ctx, cancel := context.WithTimeout(asLie(t.Context(), name), lieTimeout)
	defer cancel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	err := callOf(name)(ctx, c, dir)
	took, most := time.Since(begin), peak(t)
	if took > time.Second || most > maxVictim/2 {
		t.Logf("%s took %v and %d MiB", name, took, most>>20)
	}
	if most > maxVictim {
		t.Errorf("the client took %d MiB, more than %d", most>>20, maxVictim>>20)
	}
	if ctx.Err() != nil {
		t.Fatal("the call did not end by itself")
	}
	if !isLie(err, want) {
		t.Errorf("the error is %.300q, want %v", fmt.Sprint(err), want)
	}
	if err != nil && len(err.Error()) > 8<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	entries, dirErr := os.ReadDir(dir)
	if dirErr != nil {
		t.Fatal(dirErr)
	}
	for _, e := range entries {
		if e.Name() != "target" && e.Name() != "secret" {
			t.Errorf("%s was written outside of the target", e.Name())
		}
	}
}

// errCutOrProtocol is wanted of a copy between two liars, of which either may be the first.
var errCutOrProtocol = errors.New("ErrCut or ErrProtocol")

// isLie reports whether a call ended as it should.
func isLie(err, want error) bool {
	switch want {
	case nil:
		return errors.Is(err, podapi.ErrProtocol)
	case errNone:
		return err == nil
	case errAny:
		return err != nil
	case errCutOrProtocol:
		return errors.Is(err, podapi.ErrCut) || errors.Is(err, podapi.ErrProtocol)
	case errTooLarge:
		return err != nil && strings.Contains(err.Error(), want.Error())
	}
	return errors.Is(err, want)
}

var liarPoint = &pb.Checkpoint{Id: string(liarCheckpoint)}

func differs(d *pb.Difference) *pb.DiffCheckpointsResponse {
	return &pb.DiffCheckpointsResponse{Kind: &pb.DiffCheckpointsResponse_Difference{Difference: d}}
}
