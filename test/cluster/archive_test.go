package main

import (
	"os"
	"path/filepath"
	"testing"
)

// writeImage writes the archive of an image to a file.
func writeImage(t *testing.T, name string, content []byte) string {
	t.Helper()
	archive, err := imageArchive(name, "program", content)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAnArchiveIsIdentifiedByContentAndName(t *testing.T) {
	id := func(name, content string) string {
		id, err := archiveID(writeImage(t, name, []byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := id("a:1", "x")
	if id("a:1", "x") != first {
		t.Error("the same image has two ids")
	}
	if id("a:1", "y") == first {
		t.Error("another program has the same id")
	}
	if id("b:1", "x") == first {
		t.Error("another name has the same id")
	}
}

func TestAnOCIArchiveIsIdentifiedByItsIndex(t *testing.T) {
	archive, err := writeArchive(entry{"./index.json", 0o644, []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "oci.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := archiveID(file); err != nil || id != digest([]byte("{}")) {
		t.Errorf("got %s, %v", id, err)
	}
}

func TestOtherFilesAreNoImages(t *testing.T) {
	empty, err := writeArchive(entry{"readme", 0o644, []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tar": empty, "text": []byte("hello"), "nothing": nil} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := archiveID(file); err == nil {
			t.Errorf("%s has the id %s", name, id)
		}
	}
}

func TestImportsAreReadFromWhatIsPrinted(t *testing.T) {
	sum := digest(nil)
	got := imported("unpacking a.test/x:1 (sha256:" + sum + ")...done\nunpacking b:2 (sha256:" + sum + ")...")
	if len(got) != 2 || got["a.test/x:1"] != "sha256:"+sum || got["b:2"] != "sha256:"+sum {
		t.Errorf("got %v", got)
	}
}
