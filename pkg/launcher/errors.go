package launcher

import "fmt"

// wrap says what was being done to which sandbox when err came.
func wrap(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sandbox %q: %w", doing, id, err)
}
