//go:build !linux

package userns

func rootLacksRight() bool { return false }
