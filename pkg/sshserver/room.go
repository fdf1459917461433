package sshserver

import "sync"

// room counts the bytes that a connection keeps here for the files of its client.
type room struct {
	limit  int64
	beyond func(n int64) bool // counts them with those of other connections, too; may be nil

	mu   sync.Mutex
	used int64
}

// take counts n more bytes, if there is room.
func (r *room) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.limit || r.beyond != nil && !r.beyond(n) {
		return false
	}
	r.used += n
	return true
}

// give counts n bytes no more.
func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.beyond != nil {
		r.beyond(-n)
	}
}
