"""What happened when.

Read `trace` (what is kept, and the questions it answers), `recorder` (how it comes out of a run), `reconvergence`
(what became of a warp's lanes), then the formats: `perfetto` on `protobuf`, and `kanata`.
"""
