package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
)

// entry is a file in an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// writeArchive writes a tar archive that depends only on its entries.
func writeArchive(entries ...entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// imageArchive writes the docker-archive of an image with one program and nothing
// else. It runs as an ordinary user, so the restricted Pod Security Standard admits
// it.
func imageArchive(name, program string, content []byte) ([]byte, error) {
	layer, err := writeArchive(entry{program, 0o755, content})
	if err != nil {
		return nil, err
	}
	type object map[string]any
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": object{"Entrypoint": []string{"/" + program}, "User": "65535:65535"},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	configName, layerName := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]object{{"Config": configName, "RepoTags": []string{name}, "Layers": []string{layerName}}})
	if err != nil {
		return nil, err
	}
	return writeArchive(entry{configName, 0o644, config}, entry{layerName, 0o644, layer}, entry{"manifest.json", 0o644, manifest})
}

// digest returns the SHA-256 of data, in hexadecimal.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// archiveID identifies the images in a docker-archive or an oci-archive, including
// their names. It uses the files that name all other files by digest, so it does
// not read the layers.
func archiveID(file string) (string, error) {
	named, err := readEntries(file, "manifest.json", "index.json")
	if err != nil {
		return "", err
	}
	if index, ok := named["index.json"]; ok && named["manifest.json"] == nil {
		return digest(index), nil
	}
	var images []struct{ Config string }
	if err := json.Unmarshal(named["manifest.json"], &images); err != nil || len(images) == 0 {
		return "", fmt.Errorf("cannot read %s: it is no docker-archive or oci-archive", file)
	}
	sum := sha256.New()
	sum.Write(named["manifest.json"])
	for _, image := range images {
		configs, err := readEntries(file, image.Config)
		if err != nil {
			return "", err
		}
		sum.Write(configs[path.Clean(image.Config)])
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readEntries reads the small files with these names from an archive, as far as
// they exist.
func readEntries(file string, names ...string) (map[string][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
		for _, name := range names {
			if path.Clean(header.Name) != path.Clean(name) {
				continue
			}
			if header.Size > maxManifest {
				return nil, fmt.Errorf("cannot read %s: %s has %d bytes", file, name, header.Size)
			}
			if found[path.Clean(name)], err = io.ReadAll(r); err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", file, err)
			}
		}
	}
}
