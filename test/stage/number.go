package stage

import (
	"os"
	"strconv"
)

// Number is the number in an environment variable, or the other if it holds none above zero.
// Tests that may go on for as long as anybody likes are short of themselves, and long
// where CI asks for that.
func Number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
