package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// The images that model providers accept.
var (
	imageNames = []string{".jpg", ".jpeg", ".png", ".gif", ".webp"}
	imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
)

func isImageName(name string) bool {
	return slices.Contains(imageNames, strings.ToLower(path.Ext(name)))
}

// isImage reports whether a file that begins with data is an image.
func isImage(data []byte) bool { return slices.Contains(imageTypes, http.DetectContentType(data)) }

// readImage reads a file that may be an image. It reports whether it is one,
// judged by its content.
func readImage(ctx context.Context, env *Env, name string) (result Result, is bool, err error) {
	var data bytes.Buffer
	// One more byte shows that the file is too large.
	read, err := env.Sandbox.Read(ctx, env.Path(name), &data, fsops.ReadOptions{Length: MaxImage + 1})
	if err != nil {
		result, err = failed(ctx, env, "read", name, err)
		return result, true, err
	}
	kind := http.DetectContentType(data.Bytes())
	switch {
	case !isImage(data.Bytes()):
		return Result{}, false, nil
	case data.Len() > MaxImage:
		result = Errorf("cannot read %s: the image has %d bytes, more than %d MiB. Make it smaller, for example with: convert IN -resize 1600 OUT",
			env.name(name), read.Attr.Size, MaxImage>>20)
	case !isWhole(kind, data.Bytes()):
		result = Errorf("cannot read %s: the image (%s, %d bytes) is incomplete: its end is missing. Create it again.", env.name(name), kind, data.Len())
	default:
		result = Result{Content: []Content{{MediaType: kind, Data: data.Bytes()}}}
	}
	return result, true, nil
}

// isWhole reports whether an image has its end, as far as that can be seen without
// decoding it. A model provider refuses an incomplete image, and from then on the
// whole conversation with it.
func isWhole(kind string, data []byte) bool {
	switch kind {
	case "image/png":
		return bytes.Contains(data, []byte("IEND"))
	case "image/jpeg":
		return bytes.Contains(data, []byte("\xff\xd9"))
	case "image/webp":
		const before = 8 // bytes before the part that the length counts
		return len(data) >= before && uint64(len(data)) >= before+uint64(binary.LittleEndian.Uint32(data[4:]))
	}
	return true // the end of a GIF is one byte, which proves nothing
}
