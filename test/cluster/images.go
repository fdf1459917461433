package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// load imports image archives into containerd, where pods find them, unless they
// have been imported before.
func (c *cluster) load(ctx context.Context, files []string) error {
	if err := asRoot(); err != nil {
		return err
	}
	if len(files) == 0 {
		return errUsage
	}
	if !c.slotted {
		return fmt.Errorf("cannot load images: there is no cluster in %s", c.dir)
	}
	if err := c.check(ctx, c.containerd()); err != nil {
		return fmt.Errorf("cannot load images: %w: bring the cluster up first", err)
	}
	unlock, err := lockFile(ctx, c.path("images", "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, file := range files {
		if err := c.importArchive(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// loadPause makes and imports the pause image.
func (c *cluster) loadPause(ctx context.Context) error {
	program, err := os.ReadFile(filepath.Join(c.Bin, "pause"))
	if err != nil {
		return err
	}
	archive, err := imageArchive(pauseImage, "pause", program)
	if err != nil {
		return err
	}
	path := c.path("images", "pause.tar")
	if err := writeFile(path, archive); err != nil {
		return err
	}
	return c.importArchive(ctx, path)
}

// importArchive imports the images of an archive. It records containerd's names and
// digests for them beside its store.
func (c *cluster) importArchive(ctx context.Context, file string) error {
	id, err := archiveID(file)
	if err != nil {
		return err
	}
	record := c.path("containerd", "loaded", id+".json")
	images := map[string]string{}
	if data, err := os.ReadFile(record); err == nil && json.Unmarshal(data, &images) == nil {
		if c.have(ctx, images) == nil {
			c.say("%s is loaded already", filepath.Base(file))
			return nil
		}
	}
	out, err := c.ctr(ctx, importTimeout, "images", "import", "--snapshotter", c.snapshotter(), file)
	if err != nil {
		return fmt.Errorf("cannot import %s: %w", file, err)
	}
	if images = imported(out); len(images) == 0 {
		return fmt.Errorf("cannot import %s: no image with a name is in it: %s", file, strings.TrimSpace(out))
	}
	if err := c.waitImages(ctx, images); err != nil {
		return fmt.Errorf("cannot import %s: %w", file, err)
	}
	for name := range images {
		c.say("loaded %s", name)
	}
	return writeJSON(record, images)
}

// imported parses the names and digests from ctr's output of an import.
func imported(out string) map[string]string {
	images := map[string]string{}
	for _, match := range regexp.MustCompile(`unpacking (\S+) \((sha256:[0-9a-f]{64})\)`).FindAllStringSubmatch(out, -1) {
		images[match[1]] = match[2]
	}
	return images
}

// waitImages waits until the CRI plugin knows new images.
func (c *cluster) waitImages(ctx context.Context, images map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		last = c.have(ctx, images)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// have returns nil if the CRI plugin knows all of the images, and otherwise names
// the missing ones. The plugin labels images that it knows.
func (c *cluster) have(ctx context.Context, images map[string]string) error {
	out, err := c.ctr(ctx, commandTimeout, "images", "ls")
	if err != nil {
		return err
	}
	has := map[string]string{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) > 2 && strings.Contains(line, "io.cri-containerd.image=managed") {
			has[fields[0]] = fields[2]
		}
	}
	for name, digest := range images {
		if has[name] != digest {
			return fmt.Errorf("%s is not there as %s", name, digest)
		}
	}
	return nil
}
