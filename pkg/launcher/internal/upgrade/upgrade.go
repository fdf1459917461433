// Package upgrade has the common parts of requests that ask the API server for a
// connection of their own, by WebSocket or SPDY.
package upgrade

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxErrorBody bounds an error answer of the API server in bytes; real ones have
	// some hundreds.
	maxErrorBody = 64 << 10
	// maxPlainText bounds how much of an error answer that is not a Status
	// becomes part of an error: enough for a sentence, not for a page of HTML.
	maxPlainText = 1 << 10
	// maxLayers bounds the layers of TLS above a socket: the API server's, a proxy's,
	// and a few more.
	maxLayers = 8
)

// Refusal returns the error of an answer that is not the upgrade: the API server's
// StatusError, or one made from the status code if something before or behind the
// server answered with plain text. The resource is what was asked for, such as
// pods/exec.
func Refusal(resp *http.Response, resource string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("cannot read the API server's answer %q: %w", resp.Status, err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: status}
	}
	generic := apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method,
		schema.GroupResource{Resource: resource}, "", "", 0, true)
	text := strings.TrimSpace(string(body[:min(len(body), maxPlainText)]))
	if text == "" {
		return generic
	}
	return fmt.Errorf("%w: %s", generic, text)
}

// Bottom returns the connection beneath all layers of TLS. Its Close does not wait.
func Bottom(conn net.Conn) net.Conn {
	for range maxLayers {
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = layer.NetConn()
	}
	return conn
}
