"""What happened when.

Read `options` (what to record), `recording` (what is kept, and the questions it answers), `reconvergence` (what became
of a warp's lanes), the formats `perfetto` on `protobuf`, and `kanata`, `trace` (a recording that writes them), then
`recorder` (how it comes out of a run).
"""
