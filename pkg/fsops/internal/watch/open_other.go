//go:build !unix

package watch

// openDirectory is nothing here: no file makes an open wait.
const openDirectory = 0
