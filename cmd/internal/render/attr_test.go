package render

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
)

func TestAttrAsJSON(t *testing.T) {
	modified := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		attr fsops.Attr
		want string
	}{
		{
			"file",
			fsops.Attr{Path: "a <b>", Size: 3, Mode: 0o644 | fs.ModeSetuid, ModTime: modified, UID: 1, GID: 2, ETag: "e"},
			`{"path":{"text":"a <b>"},"type":"file","size":3,"mode":"4644","mtime":"2024-02-29T12:00:00Z","uid":1,"gid":2,"etag":"e"}`,
		},
		{
			"link to a name that is not UTF-8",
			fsops.Attr{Path: "l\xff", Mode: fs.ModeSymlink | 0o777, ModTime: modified, Target: "t\xff"},
			`{"path":{"bytes":"bP8="},"type":"symlink","size":0,"mode":"0777","mtime":"2024-02-29T12:00:00Z","uid":0,"gid":0,"target":{"bytes":"dP8="}}`,
		},
	}
	for _, tt := range tests {
		var got strings.Builder
		if err := JSON(&got, NewAttr(tt.attr)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want+"\n", got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
