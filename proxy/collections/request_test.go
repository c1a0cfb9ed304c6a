package collections

import "testing"

func TestAnOrderThatIsNoneIsTheDefault(t *testing.T) {
	unknown, known := defaultRequest(), defaultRequest()
	unknown.OrderBy = "name"
	if got, want := unknown.listing().String(), known.listing().String(); got != want {
		t.Errorf("%q is asked for, want %q", got, want)
	}
}
