from tests.tools.place import bench

__all__ = ["bench"]
