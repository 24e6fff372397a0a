"""Results of instructions: registers are rows of 32 lanes, and an executor works on whole rows.

Read `lanes` (loops over a row's lanes), `common`, then one executor for each class of micro-operation: `int`, `float`,
`double`, `half`, `convert`, `mufu`, `predicate`, `cross` (between lanes), `simd`, `tensor`.
"""
