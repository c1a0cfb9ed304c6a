// Package expect has the checks that tests repeat most. A failed check prints the value and the one that the test wants.
package expect

import (
	gocmp "cmp"
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

// Eventually waits until ok returns true, for at most a minute. Tests that compare a value use one of the functions below, which
// print it.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually(t, ok, func() string { return what })
}

// EventuallyEqual waits until value returns want, for at most a minute.
func EventuallyEqual[T comparable](t testing.TB, what string, value func() T, want T) {
	t.Helper()
	var got T
	eventually(t, func() bool { got = value(); return got == want }, func() string {
		return fmt.Sprintf("%s: got %v, want %v", what, got, want)
	})
}

// EventuallyAtLeast waits until value returns least or more, for at most a minute.
func EventuallyAtLeast[T gocmp.Ordered](t testing.TB, what string, value func() T, least T) {
	t.Helper()
	var got T
	eventually(t, func() bool { got = value(); return got >= least }, func() string {
		return fmt.Sprintf("%s: got %v, want at least %v", what, got, least)
	})
}

func eventually(t testing.TB, ok func() bool, problem func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + problem())
		}
	}
}
