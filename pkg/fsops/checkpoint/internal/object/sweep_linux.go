package object

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Sweep removes the objects that keep does not report, and counts the others. Nobody else may use the store meanwhile.
func (o *Store) Sweep(ctx context.Context, keep func(Hash) bool) error {
	o.counted = false
	err := o.eachLarge(func(path string) error {
		if h, err := ParseHash(filepath.Base(path)); err == nil && keep(h) {
			return ctx.Err()
		}
		return RemoveTree(path)
	})
	if err == nil {
		err = o.packs.sweep(ctx, keep)
	}
	if err == nil {
		err = o.unverified.sweep(ctx, func(h Hash) bool {
			_, stored, err := o.packs.find(h)
			return keep(h) && (err != nil || !stored)
		})
	}
	if err != nil {
		return err
	}
	return o.Count()
}

// eachLarge calls visit for each path among the large objects.
func (o *Store) eachLarge(visit func(path string) error) error {
	names, err := NamesIn(o.dir, maxObjects)
	for _, name := range names {
		if err == nil {
			err = visit(filepath.Join(o.dir, name))
		}
	}
	return err
}

// Count counts what the objects take, unless that is known. It has to be called before anything is put.
func (o *Store) Count() error {
	if o.counted {
		return nil
	}
	used, err := o.packs.total()
	unverified, unverifiedErr := o.unverified.total()
	used, err = used+unverified, errors.Join(err, unverifiedErr)
	if err == nil {
		err = o.eachLarge(func(path string) error {
			info, err := os.Lstat(path)
			if err == nil {
				used += info.Size()
			}
			return err
		})
	}
	if err == nil {
		o.used.Store(used)
		o.checked.Store(used)
		o.counted = true
	}
	return err
}

// Used returns how many bytes the objects take, as far as they have been counted.
func (o *Store) Used() int64 { return o.used.Load() }

// Abandon drops what was put since the last Seal. Nobody may put objects meanwhile.
func (o *Store) Abandon() {
	o.packs.abandon()
	o.counted = false
}

// Tidy puts small packs together if there are many. Nobody else may use the store meanwhile.
func (o *Store) Tidy(ctx context.Context) error { return o.packs.tidy(ctx) }
