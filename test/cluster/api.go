package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// get requests a URL as one of the cluster's identities, and decodes the JSON
// answer unless into is nil. Any status but 200 is an error with the text of the
// answer.
func (c *cluster) get(ctx context.Context, url, ca, id string, into any) error {
	transport, err := c.transport(ca, id)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %.300s", url, response.Status, strings.TrimSpace(string(body)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// transport connects as an identity to the servers of an authority. It ignores
// proxies, because everything is on this machine.
func (c *cluster) transport(ca, id string) (*http.Transport, error) {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(c.pki(ca + ".crt"))
	if err != nil {
		return nil, err
	}
	roots.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(c.pki(id+".crt"), c.pki(id+".key"))
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}, nil
}

// nodeReady returns nil if pods can run, and otherwise the reason: the node is not
// ready, or the default namespace has no service account yet.
func (c *cluster) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.get(ctx, c.APIServer+"/api/v1/nodes/"+c.Node, "ca", "admin", &node); err != nil {
		return err
	}
	ready := errors.New("the node is not ready: it has not said so yet")
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			ready = nil
		} else if condition.Type == "Ready" {
			ready = fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	if ready != nil {
		return ready
	}
	return c.get(ctx, c.APIServer+"/api/v1/namespaces/default/serviceaccounts/default", "ca", "admin", nil)
}
