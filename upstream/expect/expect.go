// Package expect has the checks that tests repeat most. A failed check prints the value and the one that the test wants.
package expect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// NoError stops the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns a function that stops the test if err is not nil, and otherwise returns v: expect.Value(os.ReadFile(path))(t).
func Value[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// ErrorIs fails the test unless err is or wraps target. The remaining arguments name the failed operation, as for fmt.Sprintf.
func ErrorIs(t testing.TB, err, target error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error = %v, want %v", fmt.Sprintf(what, args...), err, target)
	}
}

// Equal fails the test unless got is want. The remaining arguments name the value, as for fmt.Sprintf.
func Equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got == want {
		return
	}
	format := "%s = %v, want %v"
	if _, ok := any(got).(string); ok {
		format = "%s = %q, want %q"
	}
	t.Errorf(format, fmt.Sprintf(what, args...), got, want)
}

// NoDiff fails the test unless got has the content of want. The remaining arguments name the value, as for fmt.Sprintf.
func NoDiff(t testing.TB, got, want any, what string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// Contains fails the test unless text contains part. The remaining arguments name the text, as for fmt.Sprintf.
func Contains(t testing.TB, text, part, what string, args ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s = %s, want it to contain %q", fmt.Sprintf(what, args...), text, part)
	}
}

// Response fails the test unless the response to a request has a status, and each part in its body.
func Response(t testing.TB, request string, status int, body string, wantStatus int, parts ...string) {
	t.Helper()
	Equal(t, status, wantStatus, "status of %s (%.500s)", request, body)
	for _, part := range parts {
		Contains(t, body, part, "body of %s", request)
	}
}

// Eventually waits until ok returns true, for at most a minute.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
