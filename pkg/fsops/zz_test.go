package fsops
import ("testing";"bytes";"os";"time")
func TestZZ(t *testing.T){
	for _, c := range []string{"a\n", "a", "a b c d e f g\n"} {
	for _, size := range []int{64<<10, 1<<20, 16<<20} {
	f:=newTestFS(t)
	must(t, os.WriteFile(at(f,"file"), bytes.Repeat([]byte(c), size/len(c)),0o644))
	var res EditResult
	start:=time.Now()
	n := allocatedBy(func(){ var err error; res, err = f.Edit(t.Context(),"file",[]Edit{editAll("a","b")},EditOptions{}); must(t,err)})
	t.Logf("%q size %d: ratio %.1f diff %d trunc %v %v", c, size, float64(n)/float64(size), len(res.Diff), res.DiffTruncated, time.Since(start))
	}}
}
