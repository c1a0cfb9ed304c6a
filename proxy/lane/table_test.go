package lane

import "testing"

func TestARequestThatIsRememberedAnewIsCountedOnce(t *testing.T) {
	s, k := &newTable().shards[0], &knownRequest{text: []byte("GET / HTTP/1.1\r\n\r\n")}
	for range 3 {
		if s.put(1, k); s.bytes != k.weight() {
			t.Errorf("%d bytes of one request of %d", s.bytes, k.weight())
		}
	}
}
