"""Linear algebra. What is singular or not positive definite raises an error in torch, and gives NaN in JAX."""

from functools import partial

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Tensor
from migrate.rules.rule import Call, Value, plain, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_plain = partial(plain, family="linear_algebra", dtype="float")

_plain(
    "torch.linalg.det torch.det Tensor.det", "input", "jnp.linalg.det({input})", "The determinant.",
    "torch.linalg.det(x)  # x: f32[2, 3, 3] -> jnp.linalg.det(x)",
)  # fmt: skip
_plain(
    "torch.linalg.inv torch.inverse Tensor.inverse", "input", "jnp.linalg.inv({input})", "The inverse.",
    "torch.linalg.inv(x + 9 * torch.eye(3))  # x: unit[2, 3, 3] -> jnp.linalg.inv(x + 9 * jnp.eye(3))",
)  # fmt: skip
_plain(
    "torch.linalg.eigvalsh", "A", "jnp.linalg.eigvalsh({A})", "Of symmetric matrices, in ascending order.",
    "torch.linalg.eigvalsh(x + x.mT)  # x: f32[3, 3] -> jnp.linalg.eigvalsh(x + x.mT)",
)  # fmt: skip
_plain(
    "torch.linalg.svdvals", "A", "jnp.linalg.svdvals({A})", "In descending order.",
    "torch.linalg.svdvals(x)  # x: f32[4, 3] -> jnp.linalg.svdvals(x)",
)  # fmt: skip
_plain(
    "torch.linalg.matrix_power torch.matrix_power Tensor.matrix_power", "input, n",
    "jnp.linalg.matrix_power({input}, {n})", "A whole number of times; negative ones invert.",
    "torch.linalg.matrix_power(x, 3)  # x: unit[2, 3, 3] -> jnp.linalg.matrix_power(x, 3)",
)  # fmt: skip
_plain(
    "torch.linalg.matrix_exp torch.matrix_exp Tensor.matrix_exp", "input", "jax.scipy.linalg.expm({input})",
    "The exponential of a matrix, not of its elements.",
    "torch.matrix_exp(x)  # x: unit[3, 3] -> jax.scipy.linalg.expm(x)",
)  # fmt: skip
_plain(
    "torch.linalg.multi_dot", "tensors", "jnp.linalg.multi_dot({tensors})", "In the order that costs least.",
    "torch.linalg.multi_dot([x, y, x])  # x: f32[2, 3]; y: f32[3, 2] -> jnp.linalg.multi_dot([x, y, x])",
)  # fmt: skip
_plain(
    "torch.vdot Tensor.vdot", "input, other", "jnp.vdot({input}, {other})", "Conjugates its first argument.",
    "torch.vdot(x, y)  # x: f32[3]; y: f32[3] -> jnp.vdot(x, y)", dtype="like",
)  # fmt: skip
_plain(
    "torch.inner Tensor.inner", "input, other", "jnp.inner({input}, {other})", "Over the last axis of both.",
    "torch.inner(x, y)  # x: f32[2, 3]; y: f32[4, 3] -> jnp.inner(x, y)", dtype="like",
)  # fmt: skip


@rule("torch.logdet", "Tensor.logdet", signature="input", dtype="float")
def logdet(call: Call) -> Expr:
    """NaN where the determinant is negative. Its logarithm is finite where the determinant itself overflows.

    >>> torch.logdet(x + 9 * torch.eye(3))  # x: unit[3, 3]
    logdet(x + 9 * jnp.eye(3))
    """
    call.snippet("logdet")
    return call.make("logdet({input})")


@rule("torch.linalg.slogdet", "torch.slogdet", "Tensor.slogdet", signature="input")
def slogdet(call: Call) -> Value:
    """The sign, and the logarithm of the size.

    >>> torch.linalg.slogdet(x)  # x: f32[3, 3]
    jnp.linalg.slogdet(x)
    """
    return _pair(call.make("jnp.linalg.slogdet({input})"))


def _pair(node: Expr, count: int = 2) -> Value:
    return Value(node, Items((Tensor("float"),) * count, type="tuple"))


@rule("torch.linalg.eigh", signature="A, UPLO='L'")
def eigh(call: Call) -> Value:
    """Ascending eigenvalues, and eigenvectors as columns, whose signs are left open in both; torch reads one triangle,
    JAX takes the mean of both, which is the same where the matrix is symmetric.

    >>> torch.linalg.eigh(x + x.mT)[0]  # x: f32[3, 3]
    jnp.linalg.eigh(x + x.mT)[0]
    """
    call.only("UPLO", "L")
    return _pair(call.make("jnp.linalg.eigh({A})"))


@rule("torch.linalg.cholesky", "torch.cholesky", "Tensor.cholesky", signature="input, upper=False", dtype="float")
def cholesky(call: Call) -> Expr:
    """Where the matrix is not positive definite torch raises an error, JAX gives NaN.

    >>> torch.linalg.cholesky(x @ x.mT + torch.eye(3))  # x: unit[3, 3]
    jnp.linalg.cholesky(x @ x.mT + jnp.eye(3))
    >>> torch.linalg.cholesky(x @ x.mT + torch.eye(3), upper=True)  # x: unit[3, 3]
    jnp.linalg.cholesky(x @ x.mT + jnp.eye(3), upper=True)
    """
    return nodes.call("jnp.linalg.cholesky", call.node("input"), **call.given("upper"))


@rule("torch.linalg.qr", signature="A, mode='reduced'")
def qr(call: Call) -> Value:
    """The signs of the columns are LAPACK's in both.

    >>> torch.linalg.qr(x)  # x: spread[4, 3]
    jnp.linalg.qr(x)
    """
    call.only("mode", "reduced", "complete")
    return _pair(nodes.call("jnp.linalg.qr", call.node("A"), **call.given("mode")))


@rule("torch.linalg.svd", signature="A, full_matrices=True, *, driver=None")
def svd(call: Call) -> Value:
    """The third part is transposed already; signs of the vectors are left open in both.

    >>> torch.linalg.svd(x, full_matrices=False)[1]  # x: spread[4, 3]
    jnp.linalg.svd(x, full_matrices=False)[1]
    """
    call.only("driver", None)
    return _pair(nodes.call("jnp.linalg.svd", call.node("A"), **call.given("full_matrices")), 3)


@rule("torch.linalg.solve", signature="A, B, *, left=True", dtype="float")
def solve(call: Call) -> Expr:
    """A X = B. Vectors for several matrices at once need an axis of their own in JAX.

    >>> torch.linalg.solve(x + 9 * torch.eye(3), y)  # x: unit[3, 3]; y: f32[3, 2]
    jnp.linalg.solve(x + 9 * jnp.eye(3), y)
    >>> torch.linalg.solve((x + 9 * torch.eye(3)).view(1, 3, 3), y.view(1, 3))  # x: unit[3, 3]; y: f32[3]
    jnp.linalg.solve((x + 9 * jnp.eye(3)).reshape(1, 3, 3), y.reshape(1, 3)[..., None])[..., 0]
    """
    call.only("left", True)
    if call.rank("A") > 2 and call.rank("B") == call.rank("A") - 1:
        return call.make("jnp.linalg.solve({A}, {B}[..., None])[..., 0]")
    return call.make("jnp.linalg.solve({A}, {B})")


@rule("torch.linalg.solve_triangular", signature="A, B, *, upper=None, left=True, unitriangular=False", dtype="float")
def solve_triangular(call: Call) -> Expr:
    """`upper` must be said in torch; JAX takes the upper triangle unless `lower` is said.

    >>> torch.linalg.solve_triangular(x + 3 * torch.eye(3), y, upper=False)  # x: unit[3, 3]; y: f32[3, 2]
    jax.scipy.linalg.solve_triangular(x + 3 * jnp.eye(3), y, lower=True)
    >>> torch.linalg.solve_triangular(x + 3 * torch.eye(3), y, upper=True)  # x: unit[3, 3]; y: f32[3, 2]
    jax.scipy.linalg.solve_triangular(x + 3 * jnp.eye(3), y)
    """
    call.only("left", True)
    lower = {} if call.literal("upper") else {"lower": nodes.expression("True")}
    more = lower | call.given(unitriangular="unit_diagonal")
    return nodes.call("jax.scipy.linalg.solve_triangular", call.node("A"), call.node("B"), **more)


@rule("torch.cholesky_solve", "Tensor.cholesky_solve", signature="input, input2, upper=False", dtype="float")
def cholesky_solve(call: Call) -> Expr:
    """Solves A X = B by a factor of A. The gradient is of the whole factor in torch, of a triangle in JAX, unless that
    is told.

    >>> torch.cholesky_solve(y, x + 3 * torch.eye(3))  # x: unit[3, 3]; y: f32[3, 2]
    cholesky_solve(y, x + 3 * jnp.eye(3))
    >>> torch.cholesky_solve(y, x.triu() + 3 * torch.eye(3), True)  # x: unit[3, 3]; y: f32[3, 2]
    cholesky_solve(y, jnp.triu(x) + 3 * jnp.eye(3), upper=True)
    >>> torch.cholesky_solve(y, x.tril() + 3 * torch.eye(3))  # x: unit[3, 3]; y: f32[3, 2]; on the host
    jax.scipy.linalg.cho_solve((jnp.tril(x) + 3 * jnp.eye(3), True), y)
    """
    lower = not call.literal("upper")
    if call.traced:
        snippet = call.snippet("cholesky_solve")
        return nodes.call(snippet, call.node("input"), call.node("input2"), **call.given("upper"))
    return call.make(f"jax.scipy.linalg.cho_solve(({{input2}}, {lower}), {{input}})")


@rule("torch.linalg.lstsq", signature="A, B, rcond=None, *, driver=None")
def lstsq(call: Call) -> Value:
    """The solution, residuals, rank and singular values; one matrix only in JAX.

    >>> torch.linalg.lstsq(x, y)[0]  # x: spread[5, 2]; y: f32[5, 3]
    jnp.linalg.lstsq(x, y)[0]
    """
    call.only("rcond", None)
    call.only("driver", None)
    return _pair(call.make("jnp.linalg.lstsq({A}, {B})"), 4)


@rule(
    "torch.linalg.pinv",
    "torch.pinverse",
    "Tensor.pinverse",
    signature="A, rcond=None, hermitian=False, *, rtol=None, atol=None",
    dtype="float",
)
def pinv(call: Call) -> Expr:
    """torch leaves out singular values below max(m, n) times epsilon, JAX below ten times that.

    >>> torch.linalg.pinv(x)  # x: spread[4, 3]
    jnp.linalg.pinv(x)
    """
    for name, allowed in (("rcond", None), ("hermitian", False), ("rtol", None), ("atol", None)):
        call.only(name, allowed)
    return call.make("jnp.linalg.pinv({A})")


@rule("torch.linalg.matrix_rank", signature="A, *, atol=None, rtol=None, hermitian=False", dtype="int")
def matrix_rank(call: Call) -> Expr:
    """Of singular values above max(m, n) times epsilon times the largest.

    >>> torch.linalg.matrix_rank(x)  # x: spread[4, 3]
    jnp.linalg.matrix_rank(x)
    """
    for name, allowed in (("hermitian", False), ("rtol", None), ("atol", None)):
        call.only(name, allowed)
    return call.make("jnp.linalg.matrix_rank({A})")


@rule("torch.cross", "Tensor.cross", "torch.linalg.cross", signature="input, other, *, dim=-1")
def cross(call: Call) -> Expr:
    """torch.linalg.cross takes the last axis; torch.cross without `dim` the first of length 3, which is refused.

    >>> torch.linalg.cross(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.cross(x, y)
    >>> torch.cross(x, y, dim=0)  # x: f32[3, 2]; y: f32[3, 2]
    jnp.cross(x, y, axis=0)
    """
    if "dim" not in call.bound and call.api != "torch.linalg.cross":
        raise Unsupported("MIG302", f"{call.api} without dim takes the first axis of length 3")
    return nodes.call("jnp.cross", call.node("input"), call.node("other"), **call.given(dim="axis"))


@rule("torch.tensordot", signature="a, b, dims=2, out=None")
def tensordot(call: Call) -> Expr:
    """The same meaning of numbers and of lists.

    >>> torch.tensordot(x, y, dims=1)  # x: f32[2, 3]; y: f32[3, 4]
    jnp.tensordot(x, y, axes=1)
    >>> torch.tensordot(x, y, dims=([1], [0]))  # x: f32[2, 3]; y: f32[3, 4]
    jnp.tensordot(x, y, axes=([1], [0]))
    """
    return nodes.call("jnp.tensordot", call.node("a"), call.node("b"), **call.given(dims="axes"))


@rule("torch.cdist", signature="x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'", dtype="float")
def cdist(call: Call) -> Expr:
    """Distances of all pairs of rows. The gradient of a distance of 0 is 0, as in torch.

    >>> torch.cdist(x, y)  # x: f32[2, 4, 3]; y: f32[2, 5, 3]
    cdist(x, y)
    >>> torch.cdist(x, y, p=1)  # x: f32[4, 3]; y: f32[5, 3]
    cdist(x, y, p=1)
    """
    call.only("p", 2.0, 2, 1.0, 1)
    call.only("compute_mode", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    call.snippet("cdist")
    return nodes.call("cdist", call.node("x1"), call.node("x2"), **call.given("p"))


@rule("torch.diag_embed", "Tensor.diag_embed", signature="input, offset=0, dim1=-2, dim2=-1")
def diag_embed(call: Call) -> Expr:
    """Diagonal matrices of the last axis.

    >>> torch.diag_embed(x)  # x: f32[2, 3]
    diag_embed(x)
    """
    call.only("offset", 0)
    call.only("dim1", -2)
    call.only("dim2", -1)
    call.snippet("diag_embed")
    return call.make("diag_embed({input})")


@rule("torch.block_diag", signature="*tensors")
def block_diag(call: Call) -> Expr:
    """The blocks of a matrix that is zero elsewhere.

    >>> torch.block_diag(x, y)  # x: f32[2, 3]; y: f32[1, 2]
    jax.scipy.linalg.block_diag(x, y)
    """
    return nodes.call("jax.scipy.linalg.block_diag", *call.tensors())
